//! `TSAN_OPTIONS`, as far as it means something here: `suppressions`, `exitcode`, `report_bugs`.
//!
//! The syntax is that of the sanitizers' own runtime: `name=value` with blanks, commas or colons
//! between, values quoted where they hold one. Options that ThreadSanitizer has and Norns does
//! not need are ignored.

use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TsanOptions {
    pub suppressions: Option<PathBuf>,
    /// The status when something was found, in place of the program's own.
    pub exit_code: Option<u8>,
    pub report_bugs: bool,
}

pub fn parse(text: &str) -> Result<TsanOptions, String> {
    let mut options = TsanOptions {
        suppressions: None,
        exit_code: None,
        report_bugs: true,
    };
    let is_between = |c: char| c.is_whitespace() || c == ',' || c == ':';
    let mut rest = text.trim_start_matches(is_between);
    while !rest.is_empty() {
        let Some((name, after)) = rest.split_once('=') else {
            return Err(format!(
                "TSAN_OPTIONS: expected `name=value`, found `{rest}`"
            ));
        };
        let value = match after.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let inside = &after[1..];
                let Some((value, after)) = inside.split_once(quote) else {
                    return Err(format!("TSAN_OPTIONS: no closing {quote} after `{name}=`"));
                };
                rest = after;
                value
            }
            _ => {
                let end = after.find(is_between).unwrap_or(after.len());
                rest = &after[end..];
                &after[..end]
            }
        };
        rest = rest.trim_start_matches(is_between);
        match name {
            "suppressions" if !value.is_empty() => options.suppressions = Some(value.into()),
            "exitcode" => {
                let code = value.parse().map_err(|_| {
                    format!("TSAN_OPTIONS: exitcode is `{value}`, not a number from 0 to 255")
                })?;
                options.exit_code = Some(code);
            }
            "report_bugs" => options.report_bugs = !matches!(value, "0" | "no" | "false"),
            _ => {}
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, suppressions: Option<&str>, exit_code: Option<u8>, report_bugs: bool) {
        let suppressions = suppressions.map(PathBuf::from);
        let expected = TsanOptions {
            suppressions,
            exit_code,
            report_bugs,
        };
        assert_eq!(parse(text), Ok(expected), "{text}");
    }

    #[test]
    fn options_of_the_sanitizers() {
        check("", None, None, true);
        check("exitcode=0", None, Some(0), true);
        check(
            "suppressions=a.supp:exitcode=66 history_size=7,report_bugs=0",
            Some("a.supp"),
            Some(66),
            false,
        );
        check("suppressions='a b:c.supp' ", Some("a b:c.supp"), None, true);
        check(":halt_on_error=1:", None, None, true);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        assert!(parse("verbose").is_err());
        assert!(parse("exitcode=many").is_err());
        assert!(parse("suppressions='a").is_err());
    }
}
