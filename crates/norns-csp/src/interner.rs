//! Hash consing: every value is stored once and named by a number, so that equal values have equal
//! numbers.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Values stored once, with a number.
#[derive(Debug)]
pub struct Interner<T: ?Sized> {
    pub values: Vec<Arc<T>>,
    ids: FxHashMap<Arc<T>, u32>,
    /// Memory of the values and of their places in both collections.
    pub bytes: usize,
}

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Interner {
            values: Vec::new(),
            ids: FxHashMap::default(),
            bytes: 0,
        }
    }
}

impl<T: ?Sized + Eq + Hash> Interner<T> {
    /// The number of a value; `size` is the memory that it points to.
    pub fn intern<V: Into<Arc<T>> + AsRef<T>>(&mut self, value: V, size: usize) -> u32 {
        if let Some(&id) = self.ids.get(value.as_ref()) {
            return id;
        }
        let id = u32::try_from(self.values.len()).expect("fewer than 2^32 values");
        let value = value.into();
        self.bytes += 80 + size;
        self.values.push(value.clone());
        self.ids.insert(value, id);
        id
    }
}

/// A value as its own reference, so that sized values can be interned like slices.
pub struct Owned<T>(pub T);

impl<T> AsRef<T> for Owned<T> {
    fn as_ref(&self) -> &T {
        &self.0
    }
}

impl<T> From<Owned<T>> for Arc<T> {
    fn from(owned: Owned<T>) -> Arc<T> {
        Arc::new(owned.0)
    }
}
