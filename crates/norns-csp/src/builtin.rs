//! The names that every script has, and those it may import.

/// Built-in values and functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(non_camel_case_types)]
pub enum Builtin {
    // sets
    union,
    inter,
    diff,
    Union,
    Inter,
    member,
    card,
    empty,
    set,
    Set,
    Seq,
    seq,
    // sequences
    length,
    null,
    head,
    tail,
    concat,
    elem,
    // maps
    emptyMap,
    mapFromList,
    mapLookup,
    mapMember,
    mapToList,
    mapUpdate,
    mapUpdateMultiple,
    mapDelete,
    Map,
    // dots
    extensions,
    productions,
    // text
    error,
    show,
    // processes
    STOP,
    SKIP,
    DIV,
    CHAOS,
    RUN,
    BUFFER,
    WEAK_BUFFER,
    SIGNAL_BUFFER,
    // in timed sections
    WAIT,
    timed_priority,
    // types as sets
    Int,
    Bool,
    Char,
    Proc,
    Events,
    True,
    False,
    // imported with `transparent`
    explicate,
    lazyenumerate,
    diamond,
    normal,
    normalise,
    lazynorm,
    sbisim,
    tau_loop_factor,
    model_compress,
    wbisim,
    dbisim,
    // imported with either
    chase,
    chase_nocache,
    // imported with `external`
    deter,
    failure_watchdog,
    trace_watchdog,
    r#loop,
    prioritise,
    prioritise_nocache,
    prioritisepo,
    mtransclose,
    relational_image,
    relational_inverse_image,
    transpose,
}

use Builtin::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Import {
    Always,
    Transparent,
    External,
    Either,
    /// Known inside `Timed { … }` only.
    Timed,
}

impl Builtin {
    pub const ALL: &[(Builtin, &str, Import)] = &[
        (union, "union", Import::Always),
        (inter, "inter", Import::Always),
        (diff, "diff", Import::Always),
        (Union, "Union", Import::Always),
        (Inter, "Inter", Import::Always),
        (member, "member", Import::Always),
        (card, "card", Import::Always),
        (empty, "empty", Import::Always),
        (set, "set", Import::Always),
        (Set, "Set", Import::Always),
        (Seq, "Seq", Import::Always),
        (seq, "seq", Import::Always),
        (length, "length", Import::Always),
        (null, "null", Import::Always),
        (head, "head", Import::Always),
        (tail, "tail", Import::Always),
        (concat, "concat", Import::Always),
        (elem, "elem", Import::Always),
        (emptyMap, "emptyMap", Import::Always),
        (mapFromList, "mapFromList", Import::Always),
        (mapLookup, "mapLookup", Import::Always),
        (mapMember, "mapMember", Import::Always),
        (mapToList, "mapToList", Import::Always),
        (mapUpdate, "mapUpdate", Import::Always),
        (mapUpdateMultiple, "mapUpdateMultiple", Import::Always),
        (mapDelete, "mapDelete", Import::Always),
        (Map, "Map", Import::Always),
        (extensions, "extensions", Import::Always),
        (productions, "productions", Import::Always),
        (error, "error", Import::Always),
        (show, "show", Import::Always),
        (STOP, "STOP", Import::Always),
        (SKIP, "SKIP", Import::Always),
        (DIV, "DIV", Import::Always),
        (CHAOS, "CHAOS", Import::Always),
        (RUN, "RUN", Import::Always),
        (BUFFER, "BUFFER", Import::Always),
        (WEAK_BUFFER, "WEAK_BUFFER", Import::Always),
        (SIGNAL_BUFFER, "SIGNAL_BUFFER", Import::Always),
        (WAIT, "WAIT", Import::Timed),
        (timed_priority, "timed_priority", Import::Timed),
        (Int, "Int", Import::Always),
        (Bool, "Bool", Import::Always),
        (Char, "Char", Import::Always),
        (Proc, "Proc", Import::Always),
        (Events, "Events", Import::Always),
        (True, "True", Import::Always),
        (False, "False", Import::Always),
        (explicate, "explicate", Import::Transparent),
        (lazyenumerate, "lazyenumerate", Import::Transparent),
        (diamond, "diamond", Import::Transparent),
        (normal, "normal", Import::Transparent),
        // The name in scripts of the time of FDR2.
        (normalise, "normalise", Import::Transparent),
        (lazynorm, "lazynorm", Import::Transparent),
        (sbisim, "sbisim", Import::Transparent),
        (tau_loop_factor, "tau_loop_factor", Import::Transparent),
        (model_compress, "model_compress", Import::Transparent),
        (wbisim, "wbisim", Import::Transparent),
        (dbisim, "dbisim", Import::Transparent),
        (chase, "chase", Import::Either),
        (chase_nocache, "chase_nocache", Import::Either),
        (deter, "deter", Import::External),
        (failure_watchdog, "failure_watchdog", Import::External),
        (trace_watchdog, "trace_watchdog", Import::External),
        (r#loop, "loop", Import::External),
        (prioritise, "prioritise", Import::External),
        (prioritise_nocache, "prioritise_nocache", Import::External),
        (prioritisepo, "prioritisepo", Import::External),
        (mtransclose, "mtransclose", Import::External),
        (relational_image, "relational_image", Import::External),
        (
            relational_inverse_image,
            "relational_inverse_image",
            Import::External,
        ),
        (transpose, "transpose", Import::External),
    ];

    pub fn name(self) -> &'static str {
        let entry = Builtin::ALL.iter().find(|(builtin, ..)| *builtin == self);
        entry.map_or("?", |(_, name, _)| name)
    }
}
