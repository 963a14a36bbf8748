//! From an executable or shared library to the program that it was linked from.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::elf::{Dyn, ElfFile, FileHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolKind};

use crate::program::{Omission, Program};
use crate::read::Linker;
use crate::section::{Content, Piece, PieceError, SECTION};

#[derive(Debug, thiserror::Error)]
pub enum ExecutableError {
    #[error("cannot read {file}: {error}")]
    CannotRead {
        file: PathBuf,
        error: std::io::Error,
    },
    #[error("{file} is no 64-bit ELF file: {error}")]
    NotElf { file: PathBuf, error: object::Error },
    #[error("{file}: {error}")]
    BadSection { file: PathBuf, error: PieceError },
    #[error(
        "{file} has no bitcode\n \
         help: build it with NORNS_BITCODE=1 and CC=norns-cc, CXX=norns-c++"
    )]
    NoBitcode { file: PathBuf },
}

type Elf<'a> = ElfFile<'a, FileHeader64<Endianness>>;

/// The libraries whose functions are known by name.
const KNOWN_LIBRARIES: &[&str] = &[
    "libc.so",
    "libm.so",
    "libpthread.so",
    "libdl.so",
    "librt.so",
    "ld-linux",
    "libgcc_s.so",
    "libstdc++.so",
    "libc++.so",
    "libc++abi.so",
    "libtsan.so",
    "libnorns_rt.so",
    "linux-vdso.so",
    "libatomic.so",
];

/// Functions that the compiler puts into every program.
const START_FILES: &[&str] = &["_start", "_init", "_fini", "_dl_relocate_static_pie"];

impl Program {
    /// The program of an executable that norns-cc built with its bitcode, and of the shared libraries
    /// next to it that carry theirs. What has no bitcode, or has some that cannot be read, becomes an
    /// [`Omission`].
    ///
    /// # Errors
    ///
    /// If the file cannot be read or no module of it has bitcode.
    pub fn from_executable(file: &Path) -> Result<Self, ExecutableError> {
        let mut linker = Linker::new();
        let mut omissions = Vec::new();
        let mut has_bitcode = false;
        let mut functions = BTreeSet::new();
        let mut known = HashSet::new();
        let mut waiting = vec![file.to_owned()];
        while let Some(current) = waiting.pop() {
            let bytes = fs::read(&current).map_err(|error| ExecutableError::CannotRead {
                file: current.clone(),
                error,
            })?;
            let elf = Elf::parse(&*bytes).map_err(|error| ExecutableError::NotElf {
                file: current.clone(),
                error,
            })?;
            let pieces = pieces_of(&elf).map_err(|error| ExecutableError::BadSection {
                file: current.clone(),
                error,
            })?;
            if pieces.is_empty() && current != file {
                omissions.push(omission(&current.to_string_lossy(), "it has no bitcode"));
                continue;
            }
            for piece in pieces {
                match piece.content {
                    Content::Missing(reason) => omissions.push(omission(&piece.source, &reason)),
                    Content::Bitcode(bitcode) => match linker.add(&piece.source, &bitcode) {
                        Ok(()) => has_bitcode = true,
                        Err(error) => omissions.push(omission(&piece.source, &error.to_string())),
                    },
                }
            }
            functions.extend(defined_functions(&elf));
            for library in needed_libraries(&elf, &bytes, &current) {
                if !known.insert(library.name.clone()) || is_known(&library.name) {
                    continue;
                }
                match library.file {
                    Some(found) => waiting.push(found),
                    None => omissions.push(omission(&library.name, "it has no bitcode")),
                }
            }
        }
        if !has_bitcode {
            return Err(ExecutableError::NoBitcode {
                file: file.to_owned(),
            });
        }
        let mut program = linker.finish();
        omissions.extend(without_bitcode(&program, functions));
        omissions.append(&mut program.omissions);
        omissions.sort();
        omissions.dedup();
        program.omissions = omissions;
        Ok(program)
    }
}

/// Whether a file is an executable, a shared library or an object.
#[must_use]
pub fn is_elf(file: &Path) -> bool {
    let mut start = [0; 4];
    let opened = fs::File::open(file);
    opened.is_ok_and(|mut file| file.read_exact(&mut start).is_ok()) && start == *b"\x7fELF"
}

fn omission(module: &str, what: &str) -> Omission {
    Omission {
        module: module.to_owned(),
        what: what.to_owned(),
        count: 1,
    }
}

/// The pieces of a file's section.
fn pieces_of(elf: &Elf<'_>) -> Result<Vec<Piece>, PieceError> {
    let Some(section) = elf.section_by_name(SECTION) else {
        return Ok(Vec::new());
    };
    Piece::read_all(section.data().unwrap_or_default())
}

/// The functions that a file defines for others, by the linker's names.
fn defined_functions(elf: &Elf<'_>) -> Vec<String> {
    elf.symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .filter(|symbol| symbol.is_global() && !symbol.is_weak())
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| !START_FILES.contains(name) && !name.starts_with("__tsan_"))
        .map(ToOwned::to_owned)
        .collect()
}

/// The functions that are in the file and in no module: of assembler, and of objects that another
/// compiler made.
fn without_bitcode(program: &Program, functions: BTreeSet<String>) -> Vec<Omission> {
    let defined = program.functions.iter().filter(|one| !one.is_declaration());
    let defined: HashSet<String> = defined.map(|one| one_constructor(&one.name)).collect();
    functions
        .into_iter()
        .filter(|name| !defined.contains(&one_constructor(name)))
        // gcc's names for parts and copies of functions.
        .filter(|name| !name.contains('.'))
        .map(|name| omission(&name, "the function has no bitcode"))
        .collect()
}

/// The complete and the base constructor or destructor are often one function with two names, and
/// compilers differ in which.
fn one_constructor(name: &str) -> String {
    name.replace("C1E", "C2E").replace("D1E", "D2E")
}

struct Library {
    name: String,
    /// Where it is, if it is not one of the system's.
    file: Option<PathBuf>,
}

/// The shared libraries that a file names. They are looked for where the file itself says and in
/// `LD_LIBRARY_PATH`; the system's libraries carry no bitcode.
fn needed_libraries(elf: &Elf<'_>, bytes: &[u8], file: &Path) -> Vec<Library> {
    let mut names = Vec::new();
    let mut folders = Vec::new();
    let endian = elf.endian();
    let Ok(sections) = elf.elf_header().sections(endian, bytes) else {
        return Vec::new();
    };
    if let Ok(Some((entries, strings))) = sections.dynamic(endian, bytes) {
        let strings = sections.strings(endian, bytes, strings).unwrap_or_default();
        for entry in entries {
            let Ok(text) = entry.string(endian, strings) else {
                continue;
            };
            let text = String::from_utf8_lossy(text).into_owned();
            match entry.d_tag(endian) {
                tag if tag == DT_NEEDED => names.push(text),
                tag if tag == DT_RUNPATH || tag == DT_RPATH => {
                    let origin = file.parent().unwrap_or(Path::new("."));
                    let origin = origin.to_string_lossy();
                    let text = text
                        .replace("${ORIGIN}", &origin)
                        .replace("$ORIGIN", &origin);
                    folders.extend(text.split(':').map(PathBuf::from));
                }
                _ => {}
            }
        }
    }
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path));
    let locate = |name: &String| {
        let mut places = folders.iter().map(|folder| folder.join(name));
        places.find(|place| place.is_file())
    };
    names
        .into_iter()
        .map(|name| Library {
            file: locate(&name),
            name,
        })
        .collect()
}

fn is_known(library: &str) -> bool {
    // A library without a name of its own is named by its path.
    let name = library.rsplit('/').next().unwrap_or(library);
    KNOWN_LIBRARIES.iter().any(|known| name.starts_with(known))
}
