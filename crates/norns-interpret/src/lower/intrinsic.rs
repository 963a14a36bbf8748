//! Functions of LLVM's that need no call.

pub(super) enum Meaning {
    /// Nothing happens.
    Nothing,
    /// The result is the first argument.
    First,
    Number(u64),
}

pub(super) fn meaning(name: &str) -> Option<Meaning> {
    const NOTHING: &[&str] = &[
        "llvm.dbg.",
        "llvm.lifetime.",
        "llvm.assume",
        "llvm.donothing",
        "llvm.experimental.noalias.scope.decl",
        "llvm.var.annotation",
        "llvm.prefetch",
        "llvm.va_end",
        "llvm.invariant.",
        "llvm.sideeffect",
    ];
    const FIRST: &[&str] = &[
        "llvm.expect.",
        "llvm.threadlocal.address",
        "llvm.launder.invariant.group",
        "llvm.strip.invariant.group",
        "llvm.ptr.annotation",
        "llvm.annotation",
    ];
    if NOTHING.iter().any(|known| name.starts_with(known)) {
        return Some(Meaning::Nothing);
    }
    if FIRST.iter().any(|known| name.starts_with(known)) {
        return Some(Meaning::First);
    }
    if name.starts_with("llvm.objectsize.") {
        return Some(Meaning::Number(u64::MAX));
    }
    if name.starts_with("llvm.is.constant.")
        || name.starts_with("llvm.returnaddress")
        || name.starts_with("llvm.frameaddress")
    {
        return Some(Meaning::Number(0));
    }
    None
}
