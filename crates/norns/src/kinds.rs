//! `--kind`: which kinds of findings a command looks for.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use norns_report::Kind;
use norns_report::kind::{Group, Selection};

#[derive(clap::Args)]
pub struct Kinds {
    /// Only these kinds are looked for and count; all without it
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',', value_parser = parser())]
    selected: Vec<Selection>,
}

impl Kinds {
    pub fn contains(&self, kind: Kind) -> bool {
        let mut selected = self.selected.iter();
        self.selected.is_empty() || selected.any(|selection| selection.kinds.contains(&kind))
    }

    /// Whether any kind of the group is among them.
    pub fn any_of(&self, group: Group) -> bool {
        group.kinds().any(|kind| self.contains(kind))
    }
}

fn parser() -> impl TypedValueParser<Value = Selection> {
    let values = Selection::all().into_iter();
    let values = values.map(|selection| {
        let value = PossibleValue::new(selection.word);
        let explains_itself = selection.words().replace(' ', "-") == selection.word;
        if explains_itself {
            value
        } else {
            value.help(selection.words())
        }
    });
    PossibleValuesParser::new(values)
        .map(|word| Selection::of_word(&word).expect("the parser accepts words of selections only"))
}
