use norns_wire::{CHUNK_HEADER, ChunkHeader, ChunkKind};

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
    assert_eq!(ChunkHeader::decode(&bytes), Some(header));
    for at in 0..CHUNK_HEADER {
        let mut changed = bytes;
        changed[at] ^= 0x10;
        assert_eq!(ChunkHeader::decode(&changed), None, "byte {at}");
    }
}
