//! Source places, from locations and the scopes that they are in.

use std::collections::HashMap;

use super::metadata::{line, node, reference};
use super::module::Module;
use crate::debug::{File, FileId, Place, PlaceId};
use crate::program::FunctionId;

/// Scopes nested deeper than this are not followed.
const MAX_DEPTH: usize = 256;

/// The places of a module that were asked for, by the keys of their nodes.
#[derive(Default)]
pub(super) struct Places {
    known: HashMap<Location, PlaceId>,
    files: HashMap<u64, FileId>,
    scopes: HashMap<u64, Scope>,
}

/// A location: its scope and the location that it was inlined at are nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Location {
    pub(super) line: u32,
    pub(super) column: u32,
    pub(super) scope: u64,
    pub(super) inlined_at: Option<u64>,
}

#[derive(Clone)]
struct Scope {
    file: Option<FileId>,
    function: Option<String>,
}

impl Module<'_, '_> {
    /// The place of a location, with all that it was inlined into.
    pub(super) fn place(&mut self, location: Location) -> Option<PlaceId> {
        // The outermost call is made a place first.
        let mut chain = vec![location];
        while let Some(node) = chain.last().and_then(|last| last.inlined_at) {
            match self.location(node) {
                Some(outer) if chain.len() < MAX_DEPTH => chain.push(outer),
                _ => break,
            }
        }
        let mut place = None;
        for location in chain.into_iter().rev() {
            place = self.place_inlined(location, place);
        }
        place
    }

    fn place_inlined(
        &mut self,
        location: Location,
        inlined_at: Option<PlaceId>,
    ) -> Option<PlaceId> {
        let key = Location {
            scope: self.metadata.key(location.scope),
            inlined_at: location.inlined_at.map(|node| self.metadata.key(node)),
            ..location
        };
        if let Some(&place) = self.places.known.get(&key) {
            return Some(place);
        }
        let scope = self.scope(location.scope);
        let place = self.add_place(Place {
            file: scope.file?,
            line: location.line,
            column: location.column,
            function: scope.function,
            inlined_at,
        });
        self.places.known.insert(key, place);
        Some(place)
    }

    fn add_place(&mut self, place: Place) -> PlaceId {
        let places = &mut self.linker.program.places;
        places.push(place);
        PlaceId::from_index(places.len() - 1)
    }

    fn location(&self, number: u64) -> Option<Location> {
        let fields = self.metadata.fields_of(number, node::LOCATION)?;
        Some(Location {
            line: line(fields.get(1)),
            column: line(fields.get(2)),
            scope: *fields.get(3)?,
            inlined_at: reference(fields.get(4)),
        })
    }

    /// Where a variable or function is declared.
    pub(super) fn declaration_place(&mut self, file: Option<u64>, line: u32) -> Option<PlaceId> {
        let file = self.file(file?)?;
        Some(self.add_place(Place {
            file,
            line,
            column: 0,
            function: None,
            inlined_at: None,
        }))
    }

    /// Gives a function the place of the subprogram that describes it.
    pub(super) fn place_function(&mut self, function: FunctionId, subprogram: u64) {
        let Some(fields) = self.metadata.fields_of(subprogram, node::SUBPROGRAM) else {
            return;
        };
        let (file, line) = (reference(fields.get(4)), line(fields.get(5)));
        let scope = self.scope(subprogram);
        if let Some(place) = self.declaration_place(file, line) {
            self.linker.program.places[place.index()].function = scope.function;
            self.linker.program.functions[function.index()].place = Some(place);
        }
    }

    fn file(&mut self, number: u64) -> Option<FileId> {
        let key = self.metadata.key(number);
        if let Some(&file) = self.places.files.get(&key) {
            return Some(file);
        }
        let fields = self.metadata.fields_of(number, node::FILE)?;
        let file = File {
            name: self.metadata.string(fields.get(1))?,
            folder: self.metadata.string(fields.get(2)).unwrap_or_default(),
        };
        let file = self.linker.file(file);
        self.places.files.insert(key, file);
        Some(file)
    }

    fn scope(&mut self, number: u64) -> Scope {
        let key = self.metadata.key(number);
        if let Some(scope) = self.places.scopes.get(&key) {
            return scope.clone();
        }
        let mut file = None;
        let mut function = None;
        let mut current = Some(number);
        for _ in 0..MAX_DEPTH {
            let Some((code, fields)) = current.and_then(|number| self.metadata.node(number)) else {
                break;
            };
            match code {
                node::LEXICAL_BLOCK | node::LEXICAL_BLOCK_FILE => {
                    file = file.or_else(|| reference(fields.get(2)));
                    current = reference(fields.get(1));
                }
                node::SUBPROGRAM => {
                    file = file.or_else(|| reference(fields.get(4)));
                    function = self.qualified_name(fields);
                    break;
                }
                _ => break,
            }
        }
        let file = file.and_then(|number| self.file(number));
        let scope = Scope { file, function };
        self.places.scopes.insert(key, scope.clone());
        scope
    }

    /// The name of a subprogram with the namespaces and classes around it.
    fn qualified_name(&self, subprogram: &[u64]) -> Option<String> {
        let mut name = self.metadata.string(subprogram.get(2))?;
        let mut scope = reference(subprogram.get(1));
        for _ in 0..MAX_DEPTH {
            let Some((code, fields)) = scope.and_then(|number| self.metadata.node(number)) else {
                break;
            };
            let (outer, own) = match code {
                node::NAMESPACE => (fields.get(1), fields.get(2)),
                node::COMPOSITE_TYPE => (fields.get(5), fields.get(2)),
                _ => break,
            };
            if let Some(own) = self.metadata.string(own) {
                name = format!("{own}::{name}");
            } else if code == node::NAMESPACE {
                name = format!("(anonymous namespace)::{name}");
            }
            scope = reference(outer);
        }
        Some(name)
    }
}
