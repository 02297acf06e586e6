//! Images of a made-up sky, as FITS files that Montage can put together: a grid of neighbours that overlap, with some noise, and each with a
//! level of its own, so that there is something to correct.

use std::io::Write;
use std::path::Path;

use forebay_sim::rng::mix;

/// Degrees of a pixel.
const PIXEL_DEGREES: f64 = 0.001;
/// How far the next image is, in parts of an image.
const STEP: f64 = 0.85;
/// FITS counts in blocks of this size, bytes.
const BLOCK: usize = 2880;

fn card(name: &str, value: &str) -> String {
    format!("{:<80}", format!("{name:<8}= {value:>20}"))
}

/// The header of the image in this column and row.
fn header(side: u64, pixels: u64, column: u64, row: u64) -> String {
    let size = pixels.to_string();
    let half = side as f64 / 2.0;
    let reference = |at: u64| format!("{:.3}", pixels as f64 / 2.0 - (at as f64 - half) * pixels as f64 * STEP);
    let degrees = |sign: f64| format!("{:.6}", sign * PIXEL_DEGREES);
    let cards = [
        card("SIMPLE", "T"),
        card("BITPIX", "-32"),
        card("NAXIS", "2"),
        card("NAXIS1", &size),
        card("NAXIS2", &size),
        card("CTYPE1", "'RA---TAN'"),
        card("CTYPE2", "'DEC--TAN'"),
        card("CRVAL1", "180.0"),
        card("CRVAL2", "0.0"),
        card("CRPIX1", &reference(column)),
        card("CRPIX2", &reference(row)),
        card("CDELT1", &degrees(-1.0)),
        card("CDELT2", &degrees(1.0)),
        card("CROTA2", "2.0"),
        card("EQUINOX", "2000.0"),
        format!("{:<80}", "END"),
    ];
    cards.concat()
}

/// Writes `side` times `side` images of `pixels` times `pixels`; their names.
pub(crate) fn write(folder: &Path, side: u64, pixels: u64) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for (row, column) in (0..side).flat_map(|row| (0..side).map(move |column| (row, column))) {
        let mut bytes = header(side, pixels, column, row).into_bytes();
        bytes.resize(bytes.len().next_multiple_of(BLOCK), b' ');
        for pixel in 0..pixels * pixels {
            let noise = (mix(pixel ^ (row * side + column) << 32) >> 40) as f32 / (1u64 << 24) as f32;
            bytes.extend_from_slice(&(100.0 + column as f32 + 2.0 * row as f32 + noise).to_be_bytes());
        }
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        let name = format!("image{row:02}{column:02}.fits");
        std::fs::File::create(folder.join(&name))?.write_all(&bytes)?;
        names.push(name);
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_whole_blocks_of_a_header_and_pixels() {
        let folder = tempfile::tempdir().unwrap();
        let names = write(folder.path(), 2, 30).unwrap();
        assert_eq!(names, ["image0000.fits", "image0001.fits", "image0100.fits", "image0101.fits"]);
        let bytes = std::fs::read(folder.path().join(&names[3])).unwrap();
        assert_eq!(bytes.len(), BLOCK + (30usize * 30 * 4).next_multiple_of(BLOCK));
        assert!(bytes.starts_with(b"SIMPLE  =                    T"));
        let head = String::from_utf8(bytes[..BLOCK].to_vec()).unwrap();
        assert!(head.contains("NAXIS1  =                   30") && head.contains("CRPIX1  =               15.000"), "{head}");
        let first = f32::from_be_bytes(bytes[BLOCK..BLOCK + 4].try_into().unwrap());
        assert!((103.0..104.0).contains(&first), "{first}");
    }
}
