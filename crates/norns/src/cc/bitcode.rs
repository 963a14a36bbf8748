//! `NORNS_BITCODE=1`: every object also carries its source as bitcode, for `norns scan`.
//!
//! While the project's own compiler makes the object, clang's front end reads the same source with the
//! same words, without instrumentation and without optimising. The result becomes a section of the object
//! (see `norns_ir::Piece`). A source that clang does not take has a piece that says so.
//!
//! Limits: an object for link-time optimisation by gcc loses the section when its plug-in takes it over;
//! `-S` leaves no object to put it into.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use norns_ir::{CompileError, Content, FrontEnd, Piece, SECTION, is_elf};

use super::command_line::{CommandLine, Goal, Source, expand, leave_out, understand};
use super::sites::Orders;
use super::{Compiler, linker_words, wrap};

/// Whether the user asked for bitcode.
pub fn is_wanted() -> bool {
    env::var_os("NORNS_BITCODE").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Runs the compiler and puts the bitcode of its sources into what it makes.
pub fn run(compiler: &Compiler, words: Vec<OsString>, orders: Option<&Orders>) -> Result<ExitCode> {
    let mut expanded = Vec::with_capacity(words.len());
    for word in &words {
        expand(word, 0, &mut expanded);
    }
    let line = understand(&expanded);
    let mut wrapped = wrap(compiler, words, orders)?;
    let start = |words: &[OsString]| start(compiler, words, orders);
    if !carries_bitcode(&line) {
        return Ok(exit_code(start(&wrapped)?.wait()?));
    }
    let front_end = FrontEnd::find()?;
    let options = front_end_words(&expanded);
    let scratch = Scratch::new()?;
    if line.goal == Goal::Compile {
        // The two compilers do not need each other.
        let mut child = start(&wrapped)?;
        let pieces = pieces(&front_end, &options, &line.sources);
        let status = child.wait()?;
        if status.success() {
            for (source, piece) in line.sources.iter().zip(&pieces) {
                say_if_missing(piece);
                add_section(&object_of(&line, source), piece, &scratch)?;
            }
        }
        return Ok(exit_code(status));
    }
    let pieces = pieces(&front_end, &options, &line.sources);
    pieces.iter().for_each(say_if_missing);
    let object = pieces_object(compiler, &pieces, &scratch)?;
    wrapped.splice(0..0, linker_words(&[object]));
    Ok(exit_code(start(&wrapped)?.wait()?))
}

/// Where cmake and meson try out what a compiler can do.
const PROBE_FOLDERS: &[&str] = &["CMakeTmp", "CMakeScratch", "meson-private"];

/// Whether the command compiles a part of a program. What `configure`, cmake and meson try out is none.
fn carries_bitcode(line: &CommandLine) -> bool {
    let is_probe = |source: &Source| {
        let file = Path::new(&source.file);
        let name = file.file_name().map(OsStr::as_bytes).unwrap_or_default();
        let is_scratch = |folder: &OsStr| PROBE_FOLDERS.contains(&folder.to_str().unwrap_or(""));
        let folder = env::current_dir().unwrap_or_default().join(file);
        name.starts_with(b"conftest") || folder.iter().any(is_scratch)
    };
    let is_header = line.output.as_deref().is_some_and(|output| {
        let extension = Path::new(output).extension();
        extension.is_some_and(|extension| extension == "gch" || extension == "pch")
    });
    line.goal != Goal::Nothing
        && !line.to_assembler
        && !is_header
        && line.foreign.is_none()
        && !line.sources.is_empty()
        && !line
            .sources
            .iter()
            .any(|source| is_probe(source) || source.file == "-")
}

fn start(
    compiler: &Compiler,
    words: &[OsString],
    orders: Option<&Orders>,
) -> Result<std::process::Child> {
    let mut command = Command::new(&compiler.words[0]);
    command.args(&compiler.words[1..]).args(words);
    if let Some(orders) = orders {
        orders.hand_to(&mut command);
    }
    command
        .spawn()
        .with_context(|| format!("cannot run {}", compiler.words[0].display()))
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// The user's words without inputs, outputs and what would make the front end write more files.
fn front_end_words(expanded: &[OsString]) -> Vec<OsString> {
    let sources: Vec<OsString> = understand(expanded)
        .sources
        .into_iter()
        .map(|source| source.file)
        .collect();
    let mut kept = Vec::new();
    let mut words = expanded.iter();
    while let Some(word) = words.next() {
        let text = word.to_str().unwrap_or_default();
        match text {
            "-o" | "-MF" | "-MT" | "-MQ" | "-MJ" | "-x" | "-Xlinker" | "-Xassembler" | "-l"
            | "-L" | "-T" | "-u" | "-z" | "--output" | "--language" | "-aux-info" | "-specs" => {
                words.next();
            }
            // Options whose argument may look like one of ours.
            "-I" | "-D" | "-U" | "-include" | "-imacros" | "-isystem" | "-iquote"
            | "-idirafter" | "-isysroot" | "--sysroot" | "-Xclang" | "-Xpreprocessor"
            | "--param" | "-mllvm" => {
                kept.push(word.clone());
                kept.extend(words.next().cloned());
            }
            _ if is_dropped(text) || leave_out(word) || sources.contains(word) => {}
            // Objects and libraries.
            _ if !text.starts_with('-') => {}
            _ => kept.push(word.clone()),
        }
    }
    // gcc's options need not mean anything to clang.
    kept.push("-Qunused-arguments".into());
    kept
}

fn is_dropped(text: &str) -> bool {
    const DROPPED: &[&str] = &[
        "-c",
        "-S",
        "--",
        "-MD",
        "-MMD",
        "-MP",
        "-MG",
        "-M",
        "-MM",
        "-r",
        "-shared",
        "-static",
        "-rdynamic",
        "-pie",
        "-save-temps",
        "--coverage",
        "-ftest-coverage",
        "-fprofile-arcs",
        "--branches",
        "-p",
        "-pg",
        "-pipe",
        "--compile",
    ];
    const PREFIXES: &[&str] = &[
        "-o",
        "-Wl,",
        "-Wa,",
        "-Wp,-M",
        "-l",
        "-L",
        "-x",
        "-flto",
        "-fuse-linker-plugin",
        "-fno-lto",
        "-ffat-lto-objects",
        "-fplugin",
        "-specs=",
        "-save-temps=",
        "-fprofile-",
        "-fdump-",
        "-Werror",
        "-gsplit-dwarf",
        "-fsanitize",
        "-fno-sanitize",
        "-fuse-ld=",
        "-fcoverage-",
        "-MF",
        "-MT",
        "-MQ",
        "-static-",
        "-ftime-trace",
        "-fembed-bitcode",
    ];
    DROPPED.contains(&text) || PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

fn pieces(front_end: &FrontEnd, options: &[OsString], sources: &[Source]) -> Vec<Piece> {
    let piece = |source: &Source| Piece {
        source: source.file.to_string_lossy().into_owned(),
        content: content(front_end, options, source),
    };
    sources.iter().map(piece).collect()
}

fn content(front_end: &FrontEnd, options: &[OsString], source: &Source) -> Content {
    if source.is_assembler {
        return Content::Missing("it is assembler".to_owned());
    }
    /// How many unknown options of gcc are left out, one after another.
    const MAX_UNKNOWN: usize = 8;
    let mut words = options.to_vec();
    if let Some(language) = &source.language {
        words.extend([OsString::from("-x"), language.clone()]);
    }
    for _ in 0..MAX_UNKNOWN {
        match front_end.compile(Path::new(&source.file), &words) {
            Ok(bitcode) => return Content::Bitcode(bitcode),
            Err(CompileError::DoesNotCompile { message, .. }) => {
                let unknown = unknown_options(&message);
                let before = words.len();
                words.retain(|word| !word.to_str().is_some_and(|word| unknown.contains(&word)));
                if words.len() == before {
                    return Content::Missing(first_error(&message));
                }
            }
            Err(error) => return Content::Missing(error.to_string()),
        }
    }
    Content::Missing("clang does not know many of its options".to_owned())
}

/// The options that clang says it does not know.
fn unknown_options(message: &str) -> Vec<&str> {
    const SAYINGS: &[&str] = &[
        "unknown argument",
        "unsupported option",
        "unsupported argument",
    ];
    message
        .lines()
        .filter(|line| SAYINGS.iter().any(|saying| line.contains(saying)))
        .filter_map(|line| line.split('\'').nth(1))
        .collect()
}

/// One line for the user: the first error, without the lines that show the source.
fn first_error(message: &str) -> String {
    let error = message.lines().find(|line| line.contains("error:"));
    let line = error.or_else(|| message.lines().find(|line| !line.is_empty()));
    format!("clang says: {}", line.unwrap_or("nothing").trim())
}

fn say_if_missing(piece: &Piece) {
    if let Content::Missing(reason) = &piece.content {
        eprintln!("norns: {} has no bitcode: {reason}", piece.source);
    }
}

/// The object that a source is compiled to.
fn object_of(line: &CommandLine, source: &Source) -> PathBuf {
    match &line.output {
        Some(output) => PathBuf::from(output),
        None => {
            let name = Path::new(&source.file).file_name();
            PathBuf::from(name.unwrap_or(&source.file)).with_extension("o")
        }
    }
}

/// Puts a piece into an object. What is no ELF file stays as it is: `/dev/null`, and clang's own bitcode
/// for link-time optimisation.
fn add_section(object: &Path, piece: &Piece, scratch: &Scratch) -> Result<()> {
    if !object.is_file() {
        return Ok(());
    }
    if !is_elf(object) {
        let file = object.display();
        eprintln!(
            "norns: {} has no bitcode: {file} is no ELF object",
            piece.source
        );
        return Ok(());
    }
    let file = scratch.folder.join("piece");
    fs::write(&file, piece.to_bytes())
        .with_context(|| format!("cannot write {}", file.display()))?;
    let mut add = OsString::from(format!("{SECTION}="));
    add.push(&file);
    let output = Command::new("objcopy")
        .arg("--add-section")
        .arg(add)
        .arg("--set-section-flags")
        .arg(format!("{SECTION}=contents,readonly"))
        .arg(object)
        .output()
        .context("cannot run objcopy\n help: sudo apt-get install binutils")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim();
        bail!("cannot put bitcode into {}: {said}", object.display());
    }
    Ok(())
}

/// An object that holds nothing but the pieces, for a command that compiles and links at once.
fn pieces_object(compiler: &Compiler, pieces: &[Piece], scratch: &Scratch) -> Result<PathBuf> {
    let content = scratch.folder.join("pieces");
    let bytes: Vec<u8> = pieces.iter().flat_map(Piece::to_bytes).collect();
    fs::write(&content, bytes).with_context(|| format!("cannot write {}", content.display()))?;
    let assembler = scratch.folder.join("pieces.s");
    let text = format!(
        ".section {SECTION},\"\",@progbits\n.incbin \"{}\"\n.section .note.GNU-stack,\"\",@progbits\n",
        content.display()
    );
    fs::write(&assembler, text).with_context(|| format!("cannot write {}", assembler.display()))?;
    let object = scratch.folder.join("pieces.o");
    let status = Command::new(&compiler.words[0])
        .args(&compiler.words[1..])
        .args(["-c", "-o"])
        .args([&object, &assembler])
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot run {}", compiler.words[0].display()))?;
    if !status.success() {
        bail!("cannot assemble the bitcode of the sources");
    }
    Ok(object)
}

/// A folder for one run, removed at its end.
struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    fn new() -> Result<Self> {
        let folder = env::temp_dir().join(format!("norns-bitcode-{}", std::process::id()));
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        Ok(Self { folder })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing depends on it any more; the system's temporary folder is cleaned anyway.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
