//! The examples of `docs/SEMANTICS.md`, run as it says they are run.

use std::process::Command;

use forebay_tests::process::{DEADLINE, Process, machine_has};
use forebay_tests::repository;
use forebay_tests::sandbox::{AMPLE, Sandbox, Size};

/// Commands of the page and what they must print.
#[derive(Debug)]
struct Example {
    line: usize,
    /// What stands behind `sh`: `mount` or `home`, and sizes.
    place: String,
    script: String,
    output: String,
}

fn block(lines: &[&str], start: usize) -> (String, usize) {
    let length = lines[start..].iter().position(|line| *line == "```").expect("every block of the page ends");
    let mut text = lines[start..start + length].join("\n");
    text.push('\n');
    (text, start + length + 1)
}

fn examples(page: &str) -> Vec<Example> {
    let lines: Vec<&str> = page.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(place) = lines[at].strip_prefix("```sh ") else {
            at += 1;
            continue;
        };
        let line = at + 1;
        let (script, end) = block(&lines, at + 1);
        assert_eq!(lines.get(end), Some(&"```text output"), "line {line}: an example is followed by its output");
        let (output, end) = block(&lines, end + 1);
        found.push(Example { line, place: place.to_owned(), script, output });
        at = end;
    }
    found
}

fn option<'a>(place: &'a str, name: &str) -> Option<&'a str> {
    place.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

#[test]
fn every_example_of_the_page_prints_what_the_page_says() {
    if !machine_has(&[]) {
        return;
    }
    let page = std::fs::read_to_string(repository::root().join("docs/SEMANTICS.md")).expect("the page is there");
    let examples = examples(&page);
    assert!(examples.len() >= 10, "only {} examples were found", examples.len());
    let mut sandbox = Sandbox::new();
    for example in examples {
        let printed = if example.place.starts_with("mount") {
            sandbox = Sandbox::new();
            let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
            let size = Size {
                capacity: option(&example.place, "capacity").map_or(AMPLE.capacity, leak),
                memory: option(&example.place, "memory").map_or(AMPLE.memory, leak),
                chunk: AMPLE.chunk,
            };
            let mut command = sandbox.run_command(size);
            command.env("TZ", "UTC").args(["--quiet", "--", "bash", "-ec", &example.script]);
            Process::start(command, &sandbox.outside(), "example").wait(DEADLINE).expect_code(0).stdout
        } else {
            let mut shell = Command::new("bash");
            shell.env("TZ", "UTC").arg("-ec").arg(&example.script).current_dir(sandbox.home());
            Process::start(shell, &sandbox.outside(), "example").wait(DEADLINE).expect_code(0).stdout
        };
        assert_eq!(printed, example.output, "the example in line {} of docs/SEMANTICS.md", example.line);
    }
}
