//! Which licences of dependencies fit ours.

/// Licences under which code may be linked into an Apache-2.0 program without a further duty than to name it.
const FITTING: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "Zlib",
    // Of libbz2-rs-sys: as BSD, and an altered source must say that it is.
    "bzip2-1.0.6",
    "0BSD",
    "CC0-1.0",
    "Unicode-3.0",
    "Unlicense",
];

/// Whether an SPDX expression (with `/` for `OR`, as old packages write) lets us choose fitting licences.
#[must_use]
pub fn fits(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    any(&mut rest).is_some_and(|fits| fits && rest.is_empty())
}

fn any(rest: &mut &[&str]) -> Option<bool> {
    let mut fits = all(rest)?;
    while let [first, tail @ ..] = *rest
        && *first == "OR"
    {
        *rest = tail;
        fits |= all(rest)?;
    }
    Some(fits)
}

fn all(rest: &mut &[&str]) -> Option<bool> {
    let mut fits = one(rest)?;
    while let [first, tail @ ..] = *rest
        && *first == "AND"
    {
        *rest = tail;
        fits &= one(rest)?;
    }
    Some(fits)
}

fn one(rest: &mut &[&str]) -> Option<bool> {
    let (first, tail) = rest.split_first()?;
    *rest = tail;
    if *first == "(" {
        let fits = any(rest)?;
        let (close, tail) = rest.split_first()?;
        *rest = tail;
        return (*close == ")").then_some(fits);
    }
    if let [with, exception, tail @ ..] = *rest
        && *with == "WITH"
    {
        *rest = tail;
        return Some(FITTING.contains(&format!("{first} WITH {exception}").as_str()));
    }
    Some(FITTING.contains(first))
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn chooses_among_alternatives_and_takes_all_of_a_conjunction() {
        for good in
            ["MIT", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0", "Apache-2.0 WITH LLVM-exception OR GPL-2.0"]
        {
            assert!(fits(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT OR", "MIT MIT", "Apache-2.0 WITH Odd-exception"] {
            assert!(!fits(bad), "{bad}");
        }
    }
}
