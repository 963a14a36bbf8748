//! The names of events.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::EventId;

/// The names of the visible events.
#[derive(Clone, Debug)]
pub struct Events {
    // Sorted by their first numbers; every number below `next` is in one of them.
    blocks: Vec<Block>,
    // Events that were given by their whole name.
    ids: FxHashMap<Arc<str>, EventId>,
    // Blocks of channels, by the name of the channel.
    channels: FxHashMap<Arc<str>, usize>,
    next: u32,
}

/// Events with consecutive numbers.
#[derive(Clone, Debug)]
struct Block {
    first: u32,
    names: Names,
}

#[derive(Clone, Debug)]
enum Names {
    Listed(Vec<Arc<str>>),
    /// A channel with all combinations of its fields, the last one varying fastest.
    Channel(Arc<str>, Vec<Arc<FieldNames>>),
}

/// The values of a field of a channel, as text.
#[derive(Debug, Default)]
pub struct FieldNames {
    names: Vec<Arc<str>>,
    places: FxHashMap<Arc<str>, u32>,
}

impl FieldNames {
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let names: Vec<Arc<str>> = names.into_iter().map(Into::into).collect();
        let places = (0u32..).zip(&names).map(|(i, name)| (name.clone(), i));
        FieldNames {
            places: places.collect(),
            names,
        }
    }
}

impl Default for Events {
    fn default() -> Self {
        Events {
            blocks: vec![Block {
                first: 0,
                names: Names::Listed(vec!["τ".into(), "✓".into()]),
            }],
            ids: FxHashMap::default(),
            channels: FxHashMap::default(),
            next: 2,
        }
    }
}

impl Events {
    /// The event of that name, new if there was none.
    pub fn intern(&mut self, name: &str) -> EventId {
        if let Some(id) = self.find(name) {
            return id;
        }
        let id = EventId(self.next);
        self.next = self.next.checked_add(1).expect("fewer than 2^32 events");
        let name: Arc<str> = name.into();
        match self.blocks.last_mut() {
            Some(Block {
                names: Names::Listed(names),
                ..
            }) => names.push(name.clone()),
            _ => self.blocks.push(Block {
                first: id.0,
                names: Names::Listed(vec![name.clone()]),
            }),
        }
        self.ids.insert(name, id);
        id
    }

    /// Gives numbers to all events of a channel and returns the first; none if they are too many
    /// to be numbered, or some of them have numbers already.
    pub(crate) fn number(
        &mut self,
        channel: &str,
        fields: Vec<Arc<FieldNames>>,
    ) -> Option<EventId> {
        let count = fields
            .iter()
            .try_fold(1u32, |all, field| all.checked_mul(field.names.len() as u32))?;
        let next = self.next.checked_add(count).filter(|&n| n <= MOST)?;
        let of_channel = |name: &str| {
            let rest = name.strip_prefix(channel);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if self.channels.contains_key(channel) || self.ids.keys().any(|name| of_channel(name)) {
            return None;
        }
        let first = EventId(self.next);
        let channel: Arc<str> = channel.into();
        self.channels.insert(channel.clone(), self.blocks.len());
        self.blocks.push(Block {
            first: first.0,
            names: Names::Channel(channel, fields),
        });
        self.next = next;
        Some(first)
    }

    /// The event of that name, if it has a number.
    pub fn find(&self, name: &str) -> Option<EventId> {
        if let Some(&id) = self.ids.get(name) {
            return Some(id);
        }
        let ends = name.match_indices('.').map(|(at, _)| at);
        ends.chain([name.len()]).find_map(|end| {
            let block = &self.blocks[*self.channels.get(&name[..end])?];
            let Names::Channel(_, fields) = &block.names else {
                unreachable!("only channels are in this table");
            };
            let place = place_of(fields, &name[end..])?;
            Some(EventId(block.first + place))
        })
    }

    /// The name of an event; `τ` and `✓` for tau and tick.
    pub fn name(&self, event: EventId) -> Cow<'_, str> {
        let at = self.blocks.partition_point(|block| block.first <= event.0) - 1;
        let block = &self.blocks[at];
        let mut place = (event.0 - block.first) as usize;
        match &block.names {
            Names::Listed(names) => Cow::Borrowed(&*names[place]),
            Names::Channel(channel, fields) if fields.is_empty() => Cow::Borrowed(&**channel),
            Names::Channel(channel, fields) => {
                let mut parts: Vec<&str> = Vec::with_capacity(fields.len() + 1);
                for field in fields.iter().rev() {
                    parts.push(&field.names[place % field.names.len()]);
                    place /= field.names.len();
                }
                parts.push(channel);
                parts.reverse();
                Cow::Owned(parts.join("."))
            }
        }
    }

    /// How many events exist, tau and tick among them.
    pub fn len(&self) -> usize {
        self.next as usize
    }

    /// Never: tau and tick always exist.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Memory of the names, without the names of fields.
    pub(crate) fn bytes(&self) -> usize {
        self.ids.len() * 96 + self.blocks.len() * 96
    }
}

// Numbers are left for events that are named one by one.
const MOST: u32 = 1 << 31;

/// The place of `.x.y` among the combinations of the fields. The name of a value may have dots in it.
fn place_of(fields: &[Arc<FieldNames>], text: &str) -> Option<u32> {
    let Some((field, others)) = fields.split_first() else {
        return text.is_empty().then_some(0);
    };
    let text = text.strip_prefix('.')?;
    let stride: u32 = others
        .iter()
        .map(|field| field.names.len() as u32)
        .product();
    let ends = text.match_indices('.').map(|(at, _)| at);
    ends.chain([text.len()]).find_map(|end| {
        let place = field.places.get(&text[..end])?;
        Some(place * stride + place_of(others, &text[end..])?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numbered_channel_has_the_same_names_as_its_events() {
        let mut events = Events::default();
        let first = events.intern("a");
        let field = |names: &[&str]| Arc::new(FieldNames::new(names.iter().map(|&n| n.to_owned())));
        let fields = vec![field(&["0", "1", "2"]), field(&["A", "B.0", "B.1"])];
        let base = events.number("c", fields.clone()).expect("nine events");
        let after = events.intern("b");
        assert_eq!((first.0, base.0, after.0), (2, 3, 12));
        for number in 2..events.len() as u32 {
            let name = events.name(EventId(number)).into_owned();
            assert_eq!(events.find(&name), Some(EventId(number)), "{name}");
            assert_eq!(events.intern(&name), EventId(number));
        }
        assert_eq!(events.name(EventId(base.0 + 5)), "c.1.B.1");
        assert_eq!(events.find("c.1"), None);
        assert_eq!(events.find("c.3.A"), None);
        assert_eq!(events.number("b", Vec::new()), None, "it has a number");
        assert_eq!(events.number("c", fields), None);
    }
}
