use norns_wire::{BadHeader, CHUNK_HEADER, ChunkHeader, ChunkKind, STREAM_VERSION, checksum};

#[test]
fn a_chunk_header_survives_and_a_changed_one_does_not() {
    let header = ChunkHeader {
        kind: ChunkKind::Events,
        process: 1,
        thread: 2,
        index: 3,
        length: 4,
        first_sequence: 5,
        checksum: 6,
    };
    let bytes = header.encode();
    assert_eq!(ChunkHeader::decode(&bytes), Ok(header));
    for at in 0..CHUNK_HEADER {
        let mut changed = bytes;
        changed[at] ^= 0x10;
        let bad = Err(BadHeader::NotAHeader);
        assert_eq!(ChunkHeader::decode(&changed), bad, "byte {at}");
    }
}

#[test]
fn a_chunk_of_another_version_is_told_apart() {
    let header = ChunkHeader {
        kind: ChunkKind::Statistics,
        process: 0,
        thread: 0,
        index: 0,
        length: 0,
        first_sequence: 0,
        checksum: 0,
    };
    let mut bytes = header.encode();
    bytes[5] = STREAM_VERSION + 1;
    let sum = checksum(&bytes[..40]);
    bytes[40..].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(
        ChunkHeader::decode(&bytes),
        Err(BadHeader::Version(STREAM_VERSION + 1))
    );
}
