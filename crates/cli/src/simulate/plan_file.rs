//! `forebay sim --plan plan.toml`: a study written down. Its keys are the long options of the command, with their values as texts, numbers,
//! switches or lists; `trace` names the trace. What stands on the command line goes before. Paths in it are seen from where it lies.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{CommandFactory, Parser};

use crate::args::{Cli, Command, SimArgs};
use crate::error::{Error, Exit};

/// Keys whose values are paths.
const PATHS: [&str; 4] = ["trace", "rate-table", "results", "output"];

fn wrong(path: &Path, problem: impl std::fmt::Display) -> Error {
    Error::Coded { message: format!("the plan {}: {problem}", path.display()), exit: Exit::Config }
}

/// The command of a plan, with what the command line says on top.
pub(super) fn args(path: &Path, command_line: &[OsString]) -> Result<SimArgs, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| wrong(path, error))?;
    let found = options(&text, path.parent().unwrap_or(Path::new(""))).map_err(|problem| wrong(path, problem))?;
    let at = command_line.iter().position(|argument| argument == OsStr::new("sim")).map_or(0, |at| at + 1);
    let (before, after) = command_line.split_at(at);
    let all = [OsString::from("forebay")].into_iter().chain(before.iter().cloned()).chain(found).chain(after.iter().cloned());
    match Cli::try_parse_from(all).map_err(|error| wrong(path, error.render().to_string().trim()))?.command {
        Command::Sim(args) => Ok(args),
        _ => Err(Error::usage("--plan is an option of `forebay sim`")),
    }
}

/// A plan as options.
fn options(text: &str, folder: &Path) -> Result<Vec<OsString>, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let cli = Cli::command();
    let known: Vec<&str> =
        cli.find_subcommand("sim").into_iter().flat_map(clap::Command::get_arguments).filter_map(clap::Arg::get_long).collect();
    let mut found = Vec::new();
    for (key, value) in &table {
        let name = key.replace('_', "-");
        if name != "trace" && (!known.contains(&name.as_str()) || name == "plan" || name == "help") {
            let known = known.iter().filter(|known| !matches!(**known, "plan" | "help" | "trace-of-plan")).copied();
            return Err(format!("\"{key}\" is none of trace, {}", known.collect::<Vec<_>>().join(", ")));
        }
        let option = if name == "trace" { "trace-of-plan" } else { &name };
        let values = match value {
            toml::Value::Boolean(false) => continue,
            toml::Value::Boolean(true) => {
                found.push(format!("--{option}").into());
                continue;
            }
            // A list of files is several options, any other list is one.
            toml::Value::Array(values) if name == "output" || name == "rate-table" => {
                values.iter().map(plain).collect::<Result<Vec<_>, _>>()?
            }
            toml::Value::Array(values) => vec![values.iter().map(plain).collect::<Result<Vec<_>, _>>()?.join(",")],
            value => vec![plain(value).map_err(|problem| format!("{key}: {problem}"))?],
        };
        for value in values {
            let value = if PATHS.contains(&name.as_str()) { folder.join(value).into_os_string() } else { value.into() };
            let mut argument = OsString::from(format!("--{option}="));
            argument.push(value);
            found.push(argument);
        }
    }
    Ok(found)
}

fn plain(value: &toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        value => Err(format!("{value} is no text and no whole number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_the_options_of_the_command() {
        let text = "trace = \"job.fbt\"\ncapacity = [\"1MiB\", \"4MiB..8MiB*2\"]\nwrite_back = \"async\"\nnodes = [1, 4]\njson = true\noutput = [\"a.html\", \"/b.csv\"]\n";
        let found = options(text, Path::new("/plans")).unwrap();
        let all = ["forebay", "sim"].map(OsString::from).into_iter().chain(found);
        let Command::Sim(args) = Cli::try_parse_from(all).unwrap().command else { panic!("another command") };
        assert_eq!(args.trace_of_plan.as_deref(), Some(Path::new("/plans/job.fbt")));
        assert_eq!((args.capacity.as_deref(), args.nodes.as_str(), args.json), (Some("1MiB,4MiB..8MiB*2"), "1,4", true));
        assert_eq!((args.write_back.as_str(), args.policy.as_str()), ("async", "lru"));
        assert_eq!(args.output, [Path::new("/plans/a.html"), Path::new("/b.csv")]);
    }

    #[test]
    fn a_wrong_plan_says_what_is_wrong() {
        let problem = |text: &str| options(text, Path::new("")).unwrap_err();
        assert!(problem("capasity = \"1MiB\"").starts_with("\"capasity\" is none of trace, "));
        assert!(problem("plan = \"x\"").starts_with("\"plan\" is none of"));
        assert!(problem("chunk = 1.5").contains("no whole number"));
        assert!(problem("chunk = ").contains("line 1"));
    }
}
