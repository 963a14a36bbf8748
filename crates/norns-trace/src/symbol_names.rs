//! The names of functions and variables in the symbol table of a program, as they stand there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use object::{Object, ObjectSymbol};

/// All names, own and imported ones; none for a file that is no program.
pub fn symbol_names(file: &Path) -> BTreeSet<String> {
    let Ok(bytes) = fs::read(file) else {
        return BTreeSet::new();
    };
    let Ok(program) = object::File::parse(&bytes[..]) else {
        return BTreeSet::new();
    };
    let symbols = program.symbols().chain(program.dynamic_symbols());
    symbols
        .filter_map(|symbol| symbol.name().ok().map(str::to_string))
        // Versions follow an `@` in some tables.
        .map(|name| name.split('@').next().unwrap_or_default().to_string())
        .filter(|name| !name.is_empty() && !name.starts_with("__norns") && !name.contains('.'))
        .collect()
}
