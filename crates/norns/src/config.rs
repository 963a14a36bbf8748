//! `norns.toml`: defaults for the options of any command, and `norns config`, which shows them.
//!
//! A section has the name of a command and its keys are the command's long options:
//!
//! ```toml
//! [check]
//! budget = 120
//! suppressions = "tsan.supp"
//! flag = ["-O1", "-lm"]
//! ```
//!
//! The file is the nearest one in the working folder or above. Its values become the options'
//! defaults, so the command line wins and `--help` shows them. Paths are relative to the file.
//! What the file says of an unknown command or option is a warning, since an older Norns may
//! read a newer file; a value that an option does not accept is an error.

use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::builder::OsStr;
use clap::{Arg, ArgAction, Command, CommandFactory};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const NAME: &str = "norns.toml";

#[derive(clap::Args)]
pub struct Arguments {
    /// Only the options of this command
    command: Option<String>,
}

/// A default that the file gives.
struct Setting {
    command: String,
    option: String,
    values: Vec<OsString>,
    line: usize,
}

struct Config {
    file: PathBuf,
    settings: Vec<Setting>,
    warnings: Vec<String>,
}

/// The command line with the defaults of the nearest `norns.toml`; what it does not understand
/// is told on standard error.
pub fn apply(command: Command) -> Result<Command> {
    let folder = std::env::current_dir().context("cannot tell the working directory")?;
    let Some(config) = load(&folder, &command)? else {
        return Ok(command);
    };
    for warning in &config.warnings {
        eprintln!("warning: {warning}");
    }
    Ok(config.settings.into_iter().fold(command, with_default))
}

fn with_default(command: Command, setting: Setting) -> Command {
    command.mut_subcommand(setting.command, |command| {
        command.mut_arg(setting.option, |arg| {
            arg.default_values(setting.values.into_iter().map(OsStr::from))
        })
    })
}

/// The folder of the project that `folder` is in: that of the nearest `norns.toml`, or itself.
pub fn project(folder: &Path) -> &Path {
    let mut up = folder.ancestors();
    up.find(|up| up.join(NAME).is_file()).unwrap_or(folder)
}

fn load(folder: &Path, command: &Command) -> Result<Option<Config>> {
    let file = project(folder).join(NAME);
    if !file.is_file() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    parse(file, &text, command).map(Some)
}

fn parse(file: PathBuf, text: &str, command: &Command) -> Result<Config> {
    let line = |span: Range<usize>| 1 + text[..span.start].matches('\n').count();
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(1, line);
        anyhow::anyhow!("{}:{at}: {}", file.display(), error.message())
    })?;
    let mut config = Config {
        file,
        settings: Vec::new(),
        warnings: Vec::new(),
    };
    let mut commands: Vec<_> = table.get_ref().iter().collect();
    commands.sort_by_key(|(name, _)| name.span().start);
    for (name, section) in commands {
        let place = format!("{}:{}", config.file.display(), line(name.span()));
        let name = name.get_ref().as_ref();
        let Some(known) = command.find_subcommand(name) else {
            let names = command.get_subcommands().map(Command::get_name);
            let like = like(name, names);
            config
                .warnings
                .push(format!("{place}: there is no command {name}{like}"));
            continue;
        };
        let DeValue::Table(section) = section.get_ref() else {
            bail!("{place}: {name} is a command: write [{name}] and its options below");
        };
        let mut options: Vec<_> = section.iter().collect();
        options.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in options {
            let at = line(key.span());
            let place = format!("{}:{at}", config.file.display());
            let key = key.get_ref().as_ref();
            let Some(option) = options_of(known).find(|arg| arg.get_long() == Some(key)) else {
                let names = options_of(known).filter_map(Arg::get_long);
                let like = like(key, names);
                config
                    .warnings
                    .push(format!("{place}: {name} has no option --{key}{like}"));
                continue;
            };
            let folder = config.file.parent().expect("a file is in a folder");
            let values = values(value, option, folder)
                .with_context(|| format!("{place}: invalid value for --{key}"))?;
            check(option, &values).with_context(|| format!("{place}: --{key}"))?;
            config.settings.push(Setting {
                command: name.into(),
                option: option.get_id().to_string(),
                values,
                line: at,
            });
        }
    }
    Ok(config)
}

/// The options that can have a default: what is given by position cannot.
fn options_of(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| {
        let shows = matches!(
            arg.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        );
        !arg.is_positional() && !shows
    })
}

fn values(value: &Spanned<DeValue>, option: &Arg, folder: &Path) -> Result<Vec<OsString>> {
    let DeValue::Array(values) = value.get_ref() else {
        return Ok(vec![one_value(value.get_ref(), option, folder)?]);
    };
    let several = matches!(option.get_action(), ArgAction::Append);
    if !several {
        bail!("it takes one value, not a list");
    }
    values
        .iter()
        .map(|value| one_value(value.get_ref(), option, folder))
        .collect()
}

fn one_value(value: &DeValue, option: &Arg, folder: &Path) -> Result<OsString> {
    let is_path = option.get_value_parser().type_id() == std::any::TypeId::of::<PathBuf>();
    Ok(match value {
        DeValue::String(text) if is_path => folder.join(text.as_ref()).into(),
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => number.to_string().into(),
        DeValue::Boolean(yes) => yes.to_string().into(),
        _ => bail!("it takes a text, a whole number, true or false"),
    })
}

/// Whether the option would accept these values on the command line.
fn check(option: &Arg, values: &[OsString]) -> Result<()> {
    if matches!(option.get_action(), ArgAction::SetTrue) {
        let yes_or_no = |value: &OsString| value == "true" || value == "false";
        if !values.iter().all(yes_or_no) {
            bail!("it is true or false");
        }
        return Ok(());
    }
    let long = option.get_long().expect("an option has a long name");
    let words = values.iter().map(|value| {
        let mut word = OsString::from(format!("--{long}="));
        word.push(value);
        word
    });
    Command::new("norns")
        .no_binary_name(true)
        .arg(option.clone())
        .try_get_matches_from(words)
        .map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            anyhow::anyhow!("{}", first.trim_start_matches("error: "))
        })?;
    Ok(())
}

/// `; did you mean …?`, if one of the names is close.
fn like<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> String {
    let closest = names.map(|name| (distance(wrong, name), name)).min();
    match closest {
        Some((distance, name)) if distance <= 1 + wrong.len() / 4 => {
            format!("; did you mean {name}?")
        }
        _ => String::new(),
    }
}

/// The edit distance: how many letters to insert, delete or change to turn one
/// word into the other.
pub fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &b) in to.iter().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let command = crate::Arguments::command();
    let folder = std::env::current_dir().context("cannot tell the working directory")?;
    let config = load(&folder, &command)?;
    if let Some(name) = &arguments.command
        && command.find_subcommand(name).is_none()
    {
        let names = command.get_subcommands().map(Command::get_name);
        bail!("there is no command {name}{}", like(name, names));
    }
    match &config {
        Some(config) => println!("# {}", config.file.display()),
        None => println!("# there is no {NAME} here or above"),
    }
    for subcommand in command.get_subcommands() {
        let name = subcommand.get_name();
        if arguments.command.as_deref().is_none_or(|only| only == name) {
            print!("{}", section(subcommand, config.as_ref()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The options of one command as a section of the file, with where each value is from.
fn section(command: &Command, config: Option<&Config>) -> String {
    let mut text = String::new();
    for option in options_of(command) {
        let long = option.get_long().expect("an option has a long name");
        let set = config.and_then(|config| {
            config.settings.iter().find(|setting| {
                setting.command == command.get_name() && setting.option == *option.get_id()
            })
        });
        let own = option.get_default_values();
        let (values, whence) = match set {
            Some(setting) => {
                let values: Vec<&std::ffi::OsStr> =
                    setting.values.iter().map(OsString::as_os_str).collect();
                (values, format!("{NAME}:{}", setting.line))
            }
            None if own.is_empty() => {
                text += &format!("# {long} =\n");
                continue;
            }
            None => (own.iter().map(AsRef::as_ref).collect(), "default".into()),
        };
        let several = matches!(option.get_action(), ArgAction::Append);
        let values: Vec<String> = values
            .iter()
            .map(|value| written(&value.to_string_lossy()))
            .collect();
        let value = if several {
            format!("[{}]", values.join(", "))
        } else {
            values.join(", ")
        };
        text += &format!("{long} = {value}  # {whence}\n");
    }
    if text.is_empty() {
        return text;
    }
    format!("\n[{}]\n{text}", command.get_name())
}

/// A value as TOML.
fn written(value: &str) -> String {
    if value == "true" || value == "false" || value.parse::<i64>().is_ok() {
        return value.into();
    }
    toml::Value::from(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings, warnings or error that a file gives, one a line.
    fn check(text: &str, expected: &str) {
        let result = match parse("/p/norns.toml".into(), text, &crate::Arguments::command()) {
            Ok(config) => {
                let settings = config.settings.iter().map(|setting| {
                    let values: Vec<_> =
                        setting.values.iter().map(|v| v.to_string_lossy()).collect();
                    format!(
                        "{} {} {}",
                        setting.command,
                        setting.option,
                        values.join(" ")
                    )
                });
                settings
                    .chain(config.warnings.iter().cloned())
                    .collect::<Vec<_>>()
                    .join("\n")
            }
            Err(error) => format!("{error:#}"),
        };
        assert_eq!(result, expected, "{text}");
    }

    #[test]
    fn a_section_sets_the_options_of_its_command() {
        check(
            "[check]\nbudget = 120\nall = true\nflag = ['-O1', '-lm']\nsuppressions = 'a.supp'\n",
            "check budget 120\ncheck all true\ncheck flags -O1 -lm\ncheck suppressions /p/a.supp",
        );
    }

    #[test]
    fn what_is_unknown_is_said_with_what_was_meant() {
        check(
            "[chek]\nbudget = 1\n[check]\nbudgt = 1\nwords = 1\n",
            "/p/norns.toml:1: there is no command chek; did you mean check?\n\
             /p/norns.toml:4: check has no option --budgt; did you mean budget?\n\
             /p/norns.toml:5: check has no option --words",
        );
    }

    #[test]
    fn a_wrong_value_is_an_error_on_its_line() {
        check(
            "[check]\nbudget = 'long'\n",
            "/p/norns.toml:2: --budget: invalid value 'long' for '--budget <SECONDS>': \
             invalid digit found in string",
        );
        check(
            "[check]\n\nformat = 'pdf'\n",
            "/p/norns.toml:3: --format: invalid value 'pdf' for '--format <FORMAT>'",
        );
        check(
            "[check]\nbudget = [1]\n",
            "/p/norns.toml:2: invalid value for --budget: it takes one value, not a list",
        );
        check(
            "check = 3\n",
            "/p/norns.toml:1: check is a command: write [check] and its options below",
        );
    }

    #[test]
    fn a_file_that_is_not_toml_is_an_error_on_its_line() {
        check(
            "[check]\nbudget 3\n",
            "/p/norns.toml:2: key with no value, expected `=`",
        );
    }
}
