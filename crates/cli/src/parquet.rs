//! Tables as Parquet files, as small as the format allows: in each group of rows each column is one page, of plain values, and nothing is
//! compressed.
//!
//! Source: the public description of the format (apache/parquet-format), with its metadata in Thrift's compact protocol. The libraries that
//! write Parquet bring compression, encodings and nesting that a table of results has no use for, and dozens of crates with them.

use std::io::{self, Write};

/// The values of a column; none is a value that is not there.
pub(crate) enum Values {
    /// Whole numbers.
    Whole(Vec<Option<i64>>),
    /// Numbers.
    Number(Vec<Option<f64>>),
    /// Texts.
    Text(Vec<Option<String>>),
}

/// A column of a table.
pub(crate) struct Column {
    /// Its name.
    pub(crate) name: String,
    /// Its values, one for each row.
    pub(crate) values: Values,
}

const MAGIC: &[u8] = b"PAR1";
// Numbers of the format's enumerations.
const INT64: i64 = 2;
const DOUBLE: i64 = 5;
const BYTE_ARRAY: i64 = 6;
const OPTIONAL: i64 = 1;
const UTF8: i64 = 0;
const PLAIN: i64 = 0;
const RLE: i64 = 3;
const UNCOMPRESSED: i64 = 0;
const DATA_PAGE: i64 = 0;

/// Thrift's compact protocol, as much of it as is written here.
#[derive(Default)]
struct Thrift {
    bytes: Vec<u8>,
    /// The last field of each struct that is open.
    last: Vec<i16>,
}

impl Thrift {
    const I32: u8 = 5;
    const I64: u8 = 6;
    const BINARY: u8 = 8;
    const LIST: u8 = 9;
    const STRUCT: u8 = 12;

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn zigzag(&mut self, value: i64) {
        self.varint(((value << 1) ^ (value >> 63)) as u64);
    }

    fn field(&mut self, number: i16, kind: u8) {
        let last = self.last.last_mut().expect("a field is in a struct");
        let step = number - std::mem::replace(last, number);
        // All structs here have their fields in order, and less than 16 apart.
        self.bytes.push((step as u8) << 4 | kind);
    }

    fn begin(&mut self) {
        self.last.push(0);
    }

    fn end(&mut self) {
        self.last.pop();
        self.bytes.push(0);
    }

    fn int(&mut self, number: i16, kind: u8, value: i64) {
        self.field(number, kind);
        self.zigzag(value);
    }

    fn text(&mut self, value: &str) {
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value.as_bytes());
    }

    fn text_field(&mut self, number: i16, value: &str) {
        self.field(number, Thrift::BINARY);
        self.text(value);
    }

    fn list(&mut self, number: i16, kind: u8, len: usize) {
        self.field(number, Thrift::LIST);
        match len {
            0..15 => self.bytes.push((len as u8) << 4 | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                self.varint(len as u64);
            }
        }
    }

    fn struct_field(&mut self, number: i16) {
        self.field(number, Thrift::STRUCT);
        self.begin();
    }
}

impl Column {
    fn present(&self) -> Vec<bool> {
        match &self.values {
            Values::Whole(values) => values.iter().map(Option::is_some).collect(),
            Values::Number(values) => values.iter().map(Option::is_some).collect(),
            Values::Text(values) => values.iter().map(Option::is_some).collect(),
        }
    }

    fn kind(&self) -> i64 {
        match self.values {
            Values::Whole(_) => INT64,
            Values::Number(_) => DOUBLE,
            Values::Text(_) => BYTE_ARRAY,
        }
    }

    /// The content of its page: which values are there, in runs, and then those.
    fn page(&self) -> Vec<u8> {
        let mut levels = Thrift::default();
        for run in self.present().chunk_by(|a, b| a == b) {
            levels.varint((run.len() as u64) << 1);
            levels.bytes.push(u8::from(run[0]));
        }
        let mut page = (levels.bytes.len() as u32).to_le_bytes().to_vec();
        page.extend(levels.bytes);
        match &self.values {
            Values::Whole(values) => page.extend(values.iter().flatten().flat_map(|value| value.to_le_bytes())),
            Values::Number(values) => page.extend(values.iter().flatten().flat_map(|value| value.to_le_bytes())),
            Values::Text(values) => {
                for text in values.iter().flatten() {
                    page.extend((text.len() as u32).to_le_bytes());
                    page.extend(text.as_bytes());
                }
            }
        }
        page
    }

    fn schema(&self, to: &mut Thrift) {
        to.begin();
        to.int(1, Thrift::I32, self.kind());
        to.int(3, Thrift::I32, OPTIONAL);
        to.text_field(4, &self.name);
        if let Values::Text(_) = self.values {
            to.int(6, Thrift::I32, UTF8);
            // The same once more, as newer readers have it: a union whose first member, a struct without fields, says text.
            to.struct_field(10);
            to.struct_field(1);
            to.end();
            to.end();
        }
        to.end();
    }
}

fn page_header(rows: usize, bytes: usize) -> Vec<u8> {
    let mut header = Thrift::default();
    header.begin();
    header.int(1, Thrift::I32, DATA_PAGE);
    header.int(2, Thrift::I32, bytes as i64);
    header.int(3, Thrift::I32, bytes as i64);
    header.struct_field(5);
    header.int(1, Thrift::I32, rows as i64);
    header.int(2, Thrift::I32, PLAIN);
    header.int(3, Thrift::I32, RLE);
    header.int(4, Thrift::I32, RLE);
    header.end();
    header.end();
    header.bytes
}

/// A whole number as a value; what does not fit into 63 bits is the largest that does.
pub(crate) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A group of rows that was written: how many, and where each column begins and how long it is.
struct Group {
    rows: usize,
    places: Vec<(u64, u64)>,
}

/// Writes a table group by group.
pub(crate) struct Writer<W: Write> {
    output: W,
    /// Bytes that were written.
    at: u64,
    /// The schema, and names and kinds of the columns, from the first group.
    schema: Vec<u8>,
    columns: Vec<(String, i64)>,
    groups: Vec<Group>,
}

impl<W: Write> Writer<W> {
    /// Begins a table.
    pub(crate) fn new(mut output: W) -> io::Result<Writer<W>> {
        output.write_all(MAGIC)?;
        Ok(Writer { output, at: MAGIC.len() as u64, schema: Vec::new(), columns: Vec::new(), groups: Vec::new() })
    }

    /// Adds rows. All groups have the same columns, and in a group all columns as many values.
    pub(crate) fn group(&mut self, columns: &[Column]) -> io::Result<()> {
        if self.columns.is_empty() {
            let mut schema = Thrift::default();
            columns.iter().for_each(|column| column.schema(&mut schema));
            self.schema = schema.bytes;
            self.columns = columns.iter().map(|column| (column.name.clone(), column.kind())).collect();
        }
        let rows = columns.first().map_or(0, |column| column.present().len());
        let mut places = Vec::new();
        for column in columns {
            let page = column.page();
            let header = page_header(rows, page.len());
            self.output.write_all(&header)?;
            self.output.write_all(&page)?;
            let bytes = (header.len() + page.len()) as u64;
            places.push((self.at, bytes));
            self.at += bytes;
        }
        self.groups.push(Group { rows, places });
        Ok(())
    }

    /// Ends it.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        let footer = self.footer();
        self.output.write_all(&footer)?;
        self.output.write_all(&(footer.len() as u32).to_le_bytes())?;
        self.output.write_all(MAGIC)?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn footer(&self) -> Vec<u8> {
        let mut footer = Thrift::default();
        footer.begin();
        footer.int(1, Thrift::I32, 1);
        footer.list(2, Thrift::STRUCT, self.columns.len() + 1);
        footer.begin();
        footer.text_field(4, "schema");
        footer.int(5, Thrift::I32, self.columns.len() as i64);
        footer.end();
        footer.bytes.extend(&self.schema);
        footer.int(3, Thrift::I64, self.groups.iter().map(|group| group.rows as i64).sum());
        footer.list(4, Thrift::STRUCT, self.groups.len());
        self.groups.iter().for_each(|group| self.group_footer(group, &mut footer));
        footer.text_field(6, concat!("forebay ", env!("CARGO_PKG_VERSION")));
        footer.end();
        footer.bytes
    }

    fn group_footer(&self, group: &Group, footer: &mut Thrift) {
        footer.begin();
        footer.list(1, Thrift::STRUCT, self.columns.len());
        for ((name, kind), (begin, bytes)) in self.columns.iter().zip(&group.places) {
            footer.begin();
            footer.int(2, Thrift::I64, *begin as i64);
            footer.struct_field(3);
            footer.int(1, Thrift::I32, *kind);
            footer.list(2, Thrift::I32, 2);
            footer.zigzag(PLAIN);
            footer.zigzag(RLE);
            footer.list(3, Thrift::BINARY, 1);
            footer.text(name);
            footer.int(4, Thrift::I32, UNCOMPRESSED);
            footer.int(5, Thrift::I64, group.rows as i64);
            footer.int(6, Thrift::I64, *bytes as i64);
            footer.int(7, Thrift::I64, *bytes as i64);
            footer.int(9, Thrift::I64, *begin as i64);
            footer.end();
            footer.end();
        }
        footer.int(2, Thrift::I64, group.places.iter().map(|(_, bytes)| *bytes as i64).sum());
        footer.int(3, Thrift::I64, group.rows as i64);
        footer.end();
    }
}

/// The file of a table of these columns, all with as many values.
pub(crate) fn file(columns: &[Column]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory can be written to");
    writer.group(columns).and_then(|()| writer.finish()).expect("memory can be written to")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Integers by hand, from the description of the protocol.
    #[test]
    fn numbers_are_written_as_thrift_has_them() {
        let mut thrift = Thrift::default();
        [0, -1, 1, 300].into_iter().for_each(|value| thrift.zigzag(value));
        assert_eq!(thrift.bytes, [0, 1, 2, 0xd8, 0x04]);
        let mut thrift = Thrift::default();
        thrift.begin();
        thrift.int(1, Thrift::I32, 2);
        thrift.text_field(4, "ab");
        thrift.list(9, Thrift::I32, 20);
        thrift.end();
        assert_eq!(thrift.bytes, [0x15, 4, 0x38, 2, b'a', b'b', 0x59, 0xf5, 20, 0]);
    }

    #[test]
    fn a_page_has_levels_and_values() {
        let column = Column { name: "n".into(), values: Values::Whole(vec![Some(1), None, None, Some(whole(u64::MAX))]) };
        let page = column.page();
        assert_eq!(&page[..10], [6, 0, 0, 0, 2, 1, 4, 0, 2, 1]);
        assert_eq!(page[10..18], 1i64.to_le_bytes());
        assert_eq!(page[18..], i64::MAX.to_le_bytes());
        let column = Column { name: "t".into(), values: Values::Text(vec![Some("é".into())]) };
        assert_eq!(column.page(), [2, 0, 0, 0, 2, 1, 2, 0, 0, 0, 0xc3, 0xa9]);
    }

    #[test]
    fn the_footer_says_where_it_begins() {
        let number = Column { name: "x".into(), values: Values::Number(vec![Some(0.5)]) };
        let file = file(&[number]);
        assert_eq!((&file[..4], &file[file.len() - 4..]), (MAGIC, MAGIC));
        let length = u32::from_le_bytes(file[file.len() - 8..file.len() - 4].try_into().expect("four bytes")) as usize;
        assert_eq!(file[file.len() - 8 - length..][..2], [0x15, 2], "version 1");
    }
}
