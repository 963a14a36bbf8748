//! `std::string` of libstdc++: the members that its headers leave to the library.
//!
//! A string is a pointer to its characters, their number, and either 16 characters of its own or the
//! capacity of a block of the heap.

use super::{Call, Done, Flow, Model, int};
use crate::machine::{Stop, give_up};
use crate::memory::{Region, address_of};

const SIZE: u64 = 8;
const LOCAL: u64 = 16;
const LOCAL_CAPACITY: u64 = 15;

pub(super) fn find(name: &str) -> Option<Model> {
    const CLASS: &str = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE";
    let name = name.strip_prefix("_Z")?;
    let name = name
        .strip_prefix("NK")
        .map_or(name.to_owned(), |rest| format!("N{rest}"));
    Some(match name.strip_prefix(CLASS)? {
        "C1Ev" | "C2Ev" => |call| construct(call, Vec::new()),
        "C1ERKS4_" | "C2ERKS4_" => |call| {
            let text = text(call, call.argument(1))?;
            construct(call, text)
        },
        "C1EPKcRKS3_" | "C2EPKcRKS3_" => |call| {
            let text = call.string(1)?;
            construct(call, text)
        },
        "C1EOS4_" | "C2EOS4_" => |call| {
            let taken = text(call, call.argument(1))?;
            construct(call, taken)?;
            put(call, call.argument(1), &[])?;
            int(0)
        },
        "C1EmcRKS3_" | "C2EmcRKS3_" => |call| {
            let text = vec![call.argument(2) as u8; call.argument(1) as usize];
            construct(call, text)
        },
        "12_M_constructEmc" => |call| {
            let text = vec![call.argument(2) as u8; call.argument(1) as usize];
            put(call, call.argument(0), &text)?;
            int(0)
        },
        "D1Ev" | "D2Ev" | "10_M_disposeEv" => dispose,
        "13_M_local_dataEv" | "17_M_use_local_dataEv" => {
            |call| Ok(Flow::Return(call.argument(0) + LOCAL))
        }
        "12_Alloc_hiderC1EPcRKS3_"
        | "12_Alloc_hiderC2EPcRKS3_"
        | "12_Alloc_hiderC1EPcOS3_"
        | "12_Alloc_hiderC2EPcOS3_"
        | "7_M_dataEPc" => |call| store(call, 0),
        "9_M_lengthEm" => |call| store(call, SIZE),
        "11_M_capacityEm" => |call| store(call, LOCAL),
        "13_M_set_lengthEm" => |call| {
            let data = call.load(call.argument(0), 8)?;
            call.store(data + call.argument(1), 1, 0)?;
            store(call, SIZE)
        },
        "7_M_dataEv" | "5c_strEv" | "4dataEv" => |call| {
            let data = call.load(call.argument(0), 8)?;
            Ok(Flow::Return(data))
        },
        "5beginEv" => |call| Ok(Flow::Return(call.load(call.argument(0), 8)?)),
        "3endEv" => |call| {
            let (data, size) = (
                call.load(call.argument(0), 8)?,
                call.load(call.argument(0) + SIZE, 8)?,
            );
            Ok(Flow::Return(data + size))
        },
        "ixEm" => |call| {
            Ok(Flow::Return(
                call.load(call.argument(0), 8)?
                    .wrapping_add(call.argument(1)),
            ))
        },
        "4sizeEv" | "6lengthEv" => |call| Ok(Flow::Return(call.load(call.argument(0) + SIZE, 8)?)),
        "5emptyEv" => |call| int(i32::from(call.load(call.argument(0) + SIZE, 8)? == 0)),
        "9_M_createERmm" => create,
        "13_S_copy_charsEPcPKcS7_" | "13_S_copy_charsEPcS5_S5_" => |call| {
            let (to, from, end) = (call.argument(0), call.argument(1), call.argument(2));
            call.machine
                .state
                .memory
                .copy(to, from, end.wrapping_sub(from))?;
            int(0)
        },
        "7compareERKS4_" => |call| {
            let (left, right) = (text(call, call.argument(0))?, text(call, call.argument(1))?);
            compare(&left, &right)
        },
        "7compareEPKc" => |call| {
            let (left, right) = (text(call, call.argument(0))?, call.string(1)?);
            compare(&left, &right)
        },
        "6insertEmPKc" => |call| {
            let (mut all, new) = (text(call, call.argument(0))?, call.string(2)?);
            let at = call.argument(1) as usize;
            if at > all.len() {
                return give_up("std::out_of_range");
            }
            all.splice(at..at, new);
            change(call, &all)
        },
        "6appendEPKc" | "pLEPKc" => |call| {
            let new = call.string(1)?;
            append(call, &new)
        },
        "6appendERKS4_" | "pLERKS4_" => |call| {
            let new = text(call, call.argument(1))?;
            append(call, &new)
        },
        "6appendEPKcm" | "9_M_appendEPKcm" => |call| {
            let count = call.argument(2);
            let new = match count {
                0 => Vec::new(),
                _ => call
                    .machine
                    .state
                    .memory
                    .bytes(call.argument(1), count)?
                    .to_vec(),
            };
            append(call, &new)
        },
        "9push_backEc" | "pLEc" => |call| append(call, &[call.argument(1) as u8]),
        "5clearEv" => |call| change(call, &[]),
        "aSERKS4_" | "6assignERKS4_" => |call| {
            let new = text(call, call.argument(1))?;
            change(call, &new)
        },
        "aSEPKc" | "6assignEPKc" => |call| {
            let new = call.string(1)?;
            change(call, &new)
        },
        _ => return None,
    })
}

fn store(call: &mut Call<'_, '_>, field: u64) -> Done {
    call.store(call.argument(0) + field, 8, call.argument(1))?;
    int(0)
}

/// The characters of a string.
fn text(call: &Call<'_, '_>, string: u64) -> Result<Vec<u8>, Stop> {
    let (data, size) = (call.load(string, 8)?, call.load(string + SIZE, 8)?);
    match size {
        0 => Ok(Vec::new()),
        _ => Ok(call.machine.state.memory.bytes(data, size)?.to_vec()),
    }
}

fn construct(call: &mut Call<'_, '_>, text: Vec<u8>) -> Done {
    let string = call.argument(0);
    call.store(string, 8, string + LOCAL)?;
    put(call, string, &text)?;
    int(0)
}

/// Gives a string other characters, in a larger block if they need one.
fn put(call: &mut Call<'_, '_>, string: u64, text: &[u8]) -> Result<(), Stop> {
    let data = call.load(string, 8)?;
    let is_local = data == string + LOCAL;
    let capacity = match is_local {
        true => LOCAL_CAPACITY,
        false => call.load(string + LOCAL, 8)?,
    };
    let size = text.len() as u64;
    let mut target = data;
    if size > capacity {
        let new = size.max(2 * capacity);
        let memory = &mut call.machine.state.memory;
        target = address_of(memory.allocate(new + 1, Region::Heap, false));
        if !is_local {
            let block = memory.heap_block(data)?;
            memory.release(block);
        }
        call.store(string, 8, target)?;
        call.store(string + LOCAL, 8, new)?;
    }
    let mut bytes = text.to_vec();
    bytes.push(0);
    call.write(target, &bytes)?;
    call.store(string + SIZE, 8, size)
}

/// Changes the string itself, which is also the result.
fn change(call: &mut Call<'_, '_>, text: &[u8]) -> Done {
    put(call, call.argument(0), text)?;
    Ok(Flow::Return(call.argument(0)))
}

fn append(call: &mut Call<'_, '_>, new: &[u8]) -> Done {
    let mut all = text(call, call.argument(0))?;
    all.extend_from_slice(new);
    change(call, &all)
}

fn dispose(call: &mut Call<'_, '_>) -> Done {
    let string = call.argument(0);
    let data = call.load(string, 8)?;
    if data != string + LOCAL {
        let block = call.machine.state.memory.heap_block(data)?;
        call.machine.state.memory.release(block);
    }
    int(0)
}

/// `_M_create(size_type &capacity, size_type old)`: a block, and how much it holds.
fn create(call: &mut Call<'_, '_>) -> Done {
    let (place, old) = (call.argument(1), call.argument(2));
    let mut capacity = call.load(place, 8)?;
    if capacity > old && capacity < 2 * old {
        capacity = 2 * old;
        call.store(place, 8, capacity)?;
    }
    if capacity > call.machine.how.limits.memory {
        return give_up("a string beyond the limit of memory");
    }
    let block = call
        .machine
        .state
        .memory
        .allocate(capacity + 1, Region::Heap, false);
    Ok(Flow::Return(address_of(block)))
}

fn compare(left: &[u8], right: &[u8]) -> Done {
    int(match left.cmp(right) {
        std::cmp::Ordering::Less => -1,
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Greater => 1,
    })
}
