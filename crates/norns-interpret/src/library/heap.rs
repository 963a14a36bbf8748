//! Allocation, and the functions on bytes.

use super::{Call, Done, Flow, Model, int};
use crate::machine::{Stop, give_up};
use crate::memory::{Region, address_of};

pub(super) fn find(name: &str) -> Option<Model> {
    Some(match name {
        "malloc" | "_Znwm" | "_Znam" => malloc,
        "_ZnwmRKSt9nothrow_t" | "_ZnamRKSt9nothrow_t" | "_ZnwmSt11align_val_t" => malloc,
        "calloc" => calloc,
        "realloc" => realloc,
        "aligned_alloc" | "memalign" => aligned_alloc,
        "posix_memalign" => posix_memalign,
        "free"
        | "cfree"
        | "_ZdlPv"
        | "_ZdlPvm"
        | "_ZdaPv"
        | "_ZdaPvm"
        | "_ZdlPvmSt11align_val_t"
        | "_ZdlPvSt11align_val_t" => free,
        "malloc_usable_size" => usable_size,
        "memcpy" | "memmove" | "__memcpy_chk" | "__memmove_chk" => memory_copy,
        "mempcpy" => memory_copy_end,
        "memset" | "__memset_chk" => memory_set,
        "bzero" | "explicit_bzero" => zero,
        "memcmp" | "bcmp" => compare,
        "memchr" => find_byte,
        _ if name.starts_with("llvm.memcpy.") || name.starts_with("llvm.memmove.") => memory_copy,
        _ if name.starts_with("llvm.memset.") => memory_set,
        _ => return None,
    })
}

fn allocate(call: &mut Call<'_, '_>, size: u64, is_written: bool) -> Result<u64, Stop> {
    let memory = &mut call.machine.state.memory;
    if size.saturating_add(memory.allocated) > call.machine.how.limits.memory
        || size > u64::from(u32::MAX)
    {
        return give_up(format!("an allocation of {size} bytes, beyond the limit"));
    }
    Ok(address_of(memory.allocate(size, Region::Heap, is_written)))
}

fn malloc(call: &mut Call<'_, '_>) -> Done {
    let address = allocate(call, call.argument(0), false)?;
    Ok(Flow::Return(address))
}

fn calloc(call: &mut Call<'_, '_>) -> Done {
    let size = call.argument(0).saturating_mul(call.argument(1));
    let address = allocate(call, size, true)?;
    Ok(Flow::Return(address))
}

fn aligned_alloc(call: &mut Call<'_, '_>) -> Done {
    if call.argument(0) > 4096 {
        return give_up("an alignment of more than a page");
    }
    let address = allocate(call, call.argument(1), false)?;
    Ok(Flow::Return(address))
}

fn posix_memalign(call: &mut Call<'_, '_>) -> Done {
    if call.argument(1) > 4096 {
        return give_up("an alignment of more than a page");
    }
    let address = allocate(call, call.argument(2), false)?;
    call.store(call.argument(0), 8, address)?;
    Ok(Flow::Return(0))
}

fn realloc(call: &mut Call<'_, '_>) -> Done {
    let (old, size) = (call.argument(0), call.argument(1));
    if old == 0 {
        let address = allocate(call, size, false)?;
        return Ok(Flow::Return(address));
    }
    let block = call.machine.state.memory.heap_block(old)?;
    let before = call
        .machine
        .state
        .memory
        .object(block)
        .map_or(0, |object| object.size());
    if size == 0 {
        call.machine.state.memory.release(block);
        return Ok(Flow::Return(0));
    }
    let address = allocate(call, size, false)?;
    call.machine
        .state
        .memory
        .copy(address, old, before.min(size))?;
    call.machine.state.memory.release(block);
    Ok(Flow::Return(address))
}

fn free(call: &mut Call<'_, '_>) -> Done {
    if call.argument(0) != 0 {
        let block = call.machine.state.memory.heap_block(call.argument(0))?;
        call.machine.state.memory.release(block);
    }
    Ok(Flow::Return(0))
}

fn usable_size(call: &mut Call<'_, '_>) -> Done {
    Ok(Flow::Return(
        call.machine
            .state
            .memory
            .size_at(call.argument(0))
            .unwrap_or_default(),
    ))
}

fn memory_copy(call: &mut Call<'_, '_>) -> Done {
    let (to, from, count) = (call.argument(0), call.argument(1), call.argument(2));
    call.machine.state.memory.copy(to, from, count)?;
    call.machine.forget_history(to, count);
    Ok(Flow::Return(to))
}

fn memory_copy_end(call: &mut Call<'_, '_>) -> Done {
    memory_copy(call)?;
    Ok(Flow::Return(
        call.argument(0).wrapping_add(call.argument(2)),
    ))
}

fn memory_set(call: &mut Call<'_, '_>) -> Done {
    let count = call.argument(2);
    if count != 0 {
        call.machine.state.memory.bytes(call.argument(0), count)?;
        call.write(
            call.argument(0),
            &vec![call.argument(1) as u8; count as usize],
        )?;
    }
    Ok(Flow::Return(call.argument(0)))
}

fn zero(call: &mut Call<'_, '_>) -> Done {
    let count = call.argument(1);
    if count != 0 {
        call.machine.state.memory.bytes(call.argument(0), count)?;
        call.write(call.argument(0), &vec![0; count as usize])?;
    }
    Ok(Flow::Return(0))
}

fn compare(call: &mut Call<'_, '_>) -> Done {
    let count = call.argument(2);
    if count == 0 {
        return int(0);
    }
    let memory = &call.machine.state.memory;
    let (left, right) = (
        memory.bytes(call.argument(0), count)?,
        memory.bytes(call.argument(1), count)?,
    );
    let different = left.iter().zip(right).find(|(left, right)| left != right);
    int(different.map_or(0, |(&left, &right)| i32::from(left) - i32::from(right)))
}

fn find_byte(call: &mut Call<'_, '_>) -> Done {
    let (start, wanted) = (call.argument(0), call.argument(1) as u8);
    let memory = &call.machine.state.memory;
    // The bytes behind the one that is found need not be there.
    for at in 0..call.argument(2) {
        if memory.load(start + at, 1)? as u8 == wanted {
            return Ok(Flow::Return(start + at));
        }
    }
    Ok(Flow::Return(0))
}
