//! Items as bytes, inside a chunk of a trace file.
//!
//! An item begins with a tag byte: the number of the operation, or the kind of definition. Bit 6 says
//! that a value follows, bit 7 that the thread is that of the event before. Numbers follow, seven bits
//! a byte, the lowest first; addresses and places are written as differences to the previous ones.
//! The state starts afresh with every chunk, so that a chunk can be read alone. An access takes about
//! 4 bytes before compression.

use thiserror::Error;

use crate::event::{Access, Event, ObjectId, Op, PlaceId, ThreadId};
use crate::item::{AccessValue, Info, Invalid, Item, OBJECT_KINDS, ORDERS};
use crate::operation::{OPERATIONS, Operands, Shape};
use crate::trace::{Custom, Object, Place, SourcePlace, Symbol, Thread};

const INFO: u8 = 48;
const THREAD: u8 = 49;
const OBJECT: u8 = 50;
const PLACE: u8 = 51;
const SYMBOL: u8 = 52;
const CUSTOM: u8 = 53;

const HAS_VALUE: u8 = 0x40;
const SAME_THREAD: u8 = 0x80;

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Malformed {
    #[error("the bytes end inside an item")]
    Short,
    #[error("{0} is no tag of an item")]
    Tag(u8),
    #[error("a number is out of range")]
    Number,
    #[error("a name is not UTF-8")]
    Text,
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// What the numbers of the next item are relative to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    thread: u32,
    place: u32,
    address: u64,
}

pub fn encode(state: &mut State, item: &Item, out: &mut Vec<u8>) {
    match item {
        Item::Info(Info { key, values }) => {
            out.push(INFO);
            put_text(out, key);
            put(out, values.len() as u64);
            values.iter().for_each(|value| put_text(out, value));
        }
        Item::Thread(Thread { name, parent }) => {
            out.push(THREAD);
            put_text(out, name);
            put(out, parent.map_or(0, |parent| u64::from(parent.0) + 1));
        }
        Item::Object(Object {
            kind,
            address,
            name,
        }) => {
            out.push(OBJECT);
            let kind = OBJECT_KINDS.iter().position(|(_, other)| other == kind);
            put(out, kind.expect("the table has every kind") as u64);
            put(out, *address);
            put_text(out, name);
        }
        Item::Place(Place { pc, frames }) => {
            out.push(PLACE);
            put(out, *pc);
            put(out, frames.len() as u64);
            for frame in frames {
                put_text(out, &frame.function);
                put_text(out, &frame.file);
                put(out, u64::from(frame.line));
                put(out, u64::from(frame.column));
            }
        }
        Item::Symbol(Symbol {
            address,
            size,
            name,
        }) => {
            out.push(SYMBOL);
            put(out, *address);
            put(out, *size);
            put_text(out, name);
        }
        Item::Custom(Custom { name, fields }) => {
            out.push(CUSTOM);
            put_text(out, name);
            put(out, fields.len() as u64);
            fields.iter().for_each(|field| put_text(out, field));
        }
        Item::Event(event, value) => {
            let mut tag = event.op.number();
            if event.thread.0 == state.thread {
                tag |= SAME_THREAD;
            }
            if value.is_some() {
                tag |= HAS_VALUE;
            }
            out.push(tag);
            if event.thread.0 != state.thread {
                put(out, u64::from(event.thread.0));
                state.thread = event.thread.0;
            }
            put(
                out,
                zigzag(i64::from(event.place.0) - i64::from(state.place)),
            );
            state.place = event.place.0;
            match event.op.operands() {
                Operands::None => {}
                Operands::Thread(thread) => put(out, u64::from(thread.0)),
                Operands::Object(object) => put(out, u64::from(object.0)),
                Operands::Counted(object, count) => {
                    put(out, u64::from(object.0));
                    put(out, u64::from(count));
                }
                Operands::Memory(Access { address, size }) => {
                    state.put_address(out, address);
                    put(out, u64::from(size));
                }
                Operands::Atomic {
                    address,
                    size,
                    order,
                } => {
                    state.put_address(out, address);
                    out.push(size);
                    out.push(order_number(order));
                }
                Operands::Order(order) => out.push(order_number(order)),
                Operands::Custom(custom) => put(out, u64::from(custom)),
            }
            if let Some(AccessValue { read, written }) = value {
                put_bytes(out, read);
                put_bytes(out, written);
            }
        }
    }
}

impl State {
    fn put_address(&mut self, out: &mut Vec<u8>, address: u64) {
        put(out, zigzag(address.wrapping_sub(self.address) as i64));
        self.address = address;
    }

    fn take_address(&mut self, bytes: &mut Bytes) -> Result<u64, Malformed> {
        self.address = self.address.wrapping_add(bytes.signed()? as u64);
        Ok(self.address)
    }
}

/// The next item, from the front of `bytes`.
pub fn decode(state: &mut State, bytes: &mut Bytes) -> Result<Item, Malformed> {
    let tag = bytes.byte()?;
    Ok(match tag {
        INFO => Item::Info(Info {
            key: bytes.text()?,
            values: bytes.texts()?,
        }),
        THREAD => Item::Thread(Thread {
            name: bytes.text()?,
            parent: match bytes.number()? {
                0 => None,
                above => Some(ThreadId(
                    u32::try_from(above - 1).map_err(|_| Malformed::Number)?,
                )),
            },
        }),
        OBJECT => {
            let kind = usize::try_from(bytes.number()?).map_err(|_| Malformed::Number)?;
            Item::Object(Object {
                kind: OBJECT_KINDS.get(kind).ok_or(Malformed::Number)?.1,
                address: bytes.number()?,
                name: bytes.text()?,
            })
        }
        PLACE => {
            let pc = bytes.number()?;
            let count = bytes.count(4)?;
            let mut frames = Vec::with_capacity(count);
            for _ in 0..count {
                frames.push(SourcePlace {
                    function: bytes.text()?,
                    file: bytes.text()?,
                    line: bytes.short()?,
                    column: bytes.short()?,
                });
            }
            Item::Place(Place { pc, frames })
        }
        SYMBOL => Item::Symbol(Symbol {
            address: bytes.number()?,
            size: bytes.number()?,
            name: bytes.text()?,
        }),
        CUSTOM => Item::Custom(Custom {
            name: bytes.text()?,
            fields: bytes.texts()?,
        }),
        _ => {
            let number = tag & 0x3f;
            let kind = OPERATIONS.get(usize::from(number));
            let kind = kind.ok_or(Malformed::Tag(tag))?;
            if tag & SAME_THREAD == 0 {
                state.thread = bytes.short()?;
            }
            let place = i64::from(state.place).checked_add(bytes.signed()?);
            let place = place.and_then(|place| u32::try_from(place).ok());
            state.place = place.ok_or(Malformed::Number)?;
            let operands = match kind.shape {
                Shape::None => Operands::None,
                Shape::Thread => Operands::Thread(ThreadId(bytes.short()?)),
                Shape::Object => Operands::Object(ObjectId(bytes.short()?)),
                Shape::Counted => Operands::Counted(ObjectId(bytes.short()?), bytes.short()?),
                Shape::Memory => Operands::Memory(Access {
                    address: state.take_address(bytes)?,
                    size: bytes.short()?,
                }),
                Shape::Atomic => Operands::Atomic {
                    address: state.take_address(bytes)?,
                    size: bytes.byte()?,
                    order: bytes.order()?,
                },
                Shape::Order => Operands::Order(bytes.order()?),
                Shape::Custom => Operands::Custom(bytes.short()?),
            };
            let event = Event {
                thread: ThreadId(state.thread),
                place: PlaceId(state.place),
                op: Op::with_operands(number, operands)
                    .expect("the operands were read by the operation's shape"),
            };
            let value = if tag & HAS_VALUE == 0 {
                None
            } else {
                Some(AccessValue {
                    read: bytes.bytes()?.to_vec(),
                    written: bytes.bytes()?.to_vec(),
                })
            };
            Item::Event(event, value)
        }
    })
}

fn order_number(order: crate::event::MemoryOrder) -> u8 {
    let number = ORDERS.iter().position(|&(_, other)| other == order);
    number.expect("the table has every order") as u8
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

/// Bytes that are read from the front.
#[derive(Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.0.split_first().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(first)
    }

    /// Accepts only the shortest form of a number, so that equal items are equal bytes.
    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return Err(Malformed::Number);
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return if byte == 0 && shift > 0 {
                    Err(Malformed::Number)
                } else {
                    Ok(number)
                };
            }
        }
        Err(Malformed::Number)
    }

    fn short(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).map_err(|_| Malformed::Number)
    }

    fn signed(&mut self) -> Result<i64, Malformed> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// A number of parts of at least `least` bytes each; an error if so many do not fit into what is
    /// left, so that a wrong number does not allocate memory.
    fn count(&mut self, least: usize) -> Result<usize, Malformed> {
        let count = usize::try_from(self.number()?).map_err(|_| Malformed::Short)?;
        if count > self.0.len() / least {
            return Err(Malformed::Short);
        }
        Ok(count)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let count = self.count(1)?;
        let (front, rest) = self.0.split_at(count);
        self.0 = rest;
        Ok(front)
    }

    fn text(&mut self) -> Result<String, Malformed> {
        let bytes = self.bytes()?;
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed::Text)?;
        Ok(text.to_owned())
    }

    fn texts(&mut self) -> Result<Vec<String>, Malformed> {
        let count = self.count(1)?;
        (0..count).map(|_| self.text()).collect()
    }

    fn order(&mut self) -> Result<crate::event::MemoryOrder, Malformed> {
        let number = usize::from(self.byte()?);
        Ok(ORDERS.get(number).ok_or(Malformed::Number)?.1)
    }
}
