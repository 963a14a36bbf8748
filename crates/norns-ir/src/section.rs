//! Bitcode inside of objects: a section that linkers concatenate, so that a program carries the bitcode
//! of exactly the objects that it was linked from.
//!
//! The section holds pieces one after another, one for each source. A piece is, in little-endian order:
//! eight bytes of magic number and version, the length of the body (8 bytes), the FNV-1a hash of the body
//! (8 bytes), and the body: a byte that says whether there is bitcode, the length of the source's name
//! (4 bytes), the name, and then the bitcode or the reason why there is none.

/// The name of the section. It is not loaded into memory, and no tool takes it for debug information.
pub const SECTION: &str = ".norns.bitcode";

const MAGIC: &[u8; 8] = b"NornsBC\x01";
const HEADER: usize = 24;

/// What the section has for one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub source: String,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Bitcode(Vec<u8>),
    /// There is no bitcode, for this reason.
    Missing(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PieceError {
    #[error(
        "byte {0} of the section {SECTION} begins no piece of bitcode; it was written by another version of norns-cc, or is damaged"
    )]
    NoPiece(usize),
    #[error("the piece of bitcode at byte {0} of the section {SECTION} is cut off")]
    CutOff(usize),
    #[error(
        "the piece of bitcode at byte {0} of the section {SECTION} is damaged: its checksum differs"
    )]
    Damaged(usize),
}

impl Piece {
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let (kind, content) = match &self.content {
            Content::Bitcode(bytes) => (0, bytes.as_slice()),
            Content::Missing(reason) => (1, reason.as_bytes()),
        };
        let length = u32::try_from(self.source.len()).expect("the name of a file is short");
        let mut body = Vec::with_capacity(5 + self.source.len() + content.len());
        body.push(kind);
        body.extend(length.to_le_bytes());
        body.extend(self.source.as_bytes());
        body.extend(content);
        let mut piece = Vec::with_capacity(HEADER + body.len());
        piece.extend(MAGIC);
        piece.extend((body.len() as u64).to_le_bytes());
        piece.extend(hash(&body).to_le_bytes());
        piece.extend(body);
        piece
    }

    /// All pieces of a section.
    ///
    /// # Errors
    ///
    /// If the section holds anything else.
    pub fn read_all(section: &[u8]) -> Result<Vec<Self>, PieceError> {
        let mut pieces = Vec::new();
        let mut at = 0;
        while let Some(rest) = section.get(at..).filter(|rest| !rest.is_empty()) {
            // A linker may put zeros between the sections of two objects.
            if rest[0] == 0 {
                at += 1;
                continue;
            }
            if !rest.starts_with(MAGIC) {
                return Err(PieceError::NoPiece(at));
            }
            let number = |start: usize| -> Option<u64> {
                let bytes = rest.get(start..start + 8)?;
                Some(u64::from_le_bytes(bytes.try_into().ok()?))
            };
            let cut_off = PieceError::CutOff(at);
            let (Some(length), Some(expected)) = (number(8), number(16)) else {
                return Err(cut_off);
            };
            let end = usize::try_from(length).ok();
            let end = end.and_then(|length| HEADER.checked_add(length));
            let Some(body) = end.and_then(|end| rest.get(HEADER..end)) else {
                return Err(cut_off);
            };
            if hash(body) != expected {
                return Err(PieceError::Damaged(at));
            }
            pieces.push(Self::parse(body).ok_or(PieceError::Damaged(at))?);
            at += HEADER + body.len();
        }
        Ok(pieces)
    }

    fn parse(body: &[u8]) -> Option<Self> {
        let (&kind, rest) = body.split_first()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (source, content) = rest.split_at_checked(length)?;
        let content = match kind {
            0 => Content::Bitcode(content.to_vec()),
            1 => Content::Missing(String::from_utf8_lossy(content).into_owned()),
            _ => return None,
        };
        Some(Self {
            source: String::from_utf8_lossy(source).into_owned(),
            content,
        })
    }
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> Vec<Piece> {
        vec![
            Piece {
                source: "src/a.c".to_owned(),
                content: Content::Bitcode(b"BC\xc0\xde\0\0\0\0".to_vec()),
            },
            Piece {
                source: "b.s".to_owned(),
                content: Content::Missing("it is assembler".to_owned()),
            },
        ]
    }

    #[test]
    fn sections_are_concatenated_with_or_without_padding() {
        let [first, second] = [0, 1].map(|index| pieces()[index].to_bytes());
        let section = [&first[..], &second[..]].concat();
        assert_eq!(Piece::read_all(&section), Ok(pieces()));
        let section = [&first[..], &[0; 7], &second[..], &[0; 3]].concat();
        assert_eq!(Piece::read_all(&section), Ok(pieces()));
        assert_eq!(Piece::read_all(&[]), Ok(Vec::new()));
    }

    #[test]
    fn damage_is_noticed() {
        let section = pieces()[0].to_bytes();
        let cut = &section[..section.len() - 1];
        assert_eq!(Piece::read_all(cut), Err(PieceError::CutOff(0)));
        let mut damaged = section.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(Piece::read_all(&damaged), Err(PieceError::Damaged(0)));
        let other = [&section[..], b"other"].concat();
        assert_eq!(
            Piece::read_all(&other),
            Err(PieceError::NoPiece(section.len()))
        );
    }
}
