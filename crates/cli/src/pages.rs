//! Manual pages and shell completions, made from the definitions that read the command line.

use std::path::Path;

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::console::Console;
use crate::error::{Error, Exit};

/// The page of one command.
fn page(command: &clap::Command) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text).map_err(Error::io("make a manual page"))?;
    Ok(text)
}

/// The name of a command's page: `forebay-run`.
fn name(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn collect(command: &clap::Command, found: &mut Vec<clap::Command>) {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        collect(below, found);
    }
    found.push(command.clone());
}

/// Every command that has a page, the main one last.
fn commands() -> Vec<clap::Command> {
    let mut root = Cli::command().disable_help_subcommand(true);
    // Gives each command its whole name.
    root.build();
    let mut found = Vec::new();
    collect(&root, &mut found);
    found
}

fn cannot(path: &Path, error: &std::io::Error) -> Error {
    let message = format!("cannot write to {}: {error}; name a directory that exists and can be written with --out", path.display());
    Error::Coded { message, exit: Exit::Config }
}

/// `forebay man`.
pub(crate) fn man(args: &ManArgs, console: Console) -> Result<(), Error> {
    let commands = commands();
    let Some(folder) = &args.out else {
        let main = commands.last().map(page).transpose()?.unwrap_or_default();
        return crate::print(&String::from_utf8_lossy(&main));
    };
    if !folder.is_dir() {
        return Err(cannot(folder, &std::io::ErrorKind::NotADirectory.into()));
    }
    for command in &commands {
        let path = folder.join(format!("{}.1", name(command)));
        std::fs::write(&path, page(command)?).map_err(|error| cannot(&path, &error))?;
    }
    console.say(&format!(
        "wrote {} manual pages to {}; read one with: man {}/forebay.1",
        commands.len(),
        folder.display(),
        folder.display()
    ));
    Ok(())
}

/// `command` as its users see it: completions would offer hidden commands and options, too.
fn visible(command: &clap::Command) -> clap::Command {
    let about = command.get_about().cloned().unwrap_or_default();
    clap::Command::new(command.get_name().to_string())
        .about(about)
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().filter(|below| !below.is_hide_set()).map(visible))
}

/// `forebay completions`.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Error> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut visible(&Cli::command()), "forebay", &mut text);
    crate::print(&String::from_utf8_lossy(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_hidden_ones_have_none() {
        let names: Vec<String> = commands().iter().map(|command| name(command).to_string()).collect();
        for name in ["forebay", "forebay-run", "forebay-status", "forebay-doctor", "forebay-man"] {
            assert!(names.iter().any(|found| found == name), "{name} is not among {names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("flush-kernel") || name.contains("help")), "{names:?}");
        for command in commands() {
            let text = String::from_utf8(page(&command).unwrap()).unwrap();
            assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{}", name(&command));
        }
    }
}
