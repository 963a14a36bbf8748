//! A long trace is read in the memory of a short one.

use norns_random::Random;
use norns_trace::container::FileState;
use norns_trace::{Access, Event, Item, Op, Place, PlaceId, Reader, Thread, ThreadId, reader};

use crate::allocation::peak;
use crate::scratch;

#[test]
fn a_million_events_are_read_in_constant_memory() {
    let measure = |events: u64| {
        let path = scratch("long");
        let mut random = Random::new(1);
        reader::write_items(&path, FileState::Finished, |writer| {
            for number in 0..4 {
                writer.push(&Item::Thread(Thread {
                    name: format!("T{number}"),
                    parent: None,
                }))?;
            }
            writer.push(&Item::Place(Place::default()))?;
            for _ in 0..events {
                let address = random.draw() % (1 << 20);
                let op = Op::Read(Access { address, size: 4 });
                let thread = ThreadId(random.below(4) as u32);
                writer.push(&Item::Event(
                    Event {
                        thread,
                        place: PlaceId(0),
                        op,
                    },
                    None,
                ))?;
            }
            Ok(())
        })
        .unwrap();
        let (count, most) = peak(|| {
            let mut reader = Reader::open(&path).unwrap();
            let mut count = 0;
            while let Some(item) = reader.next().unwrap() {
                count += u64::from(matches!(item, Item::Event(..)));
            }
            count
        });
        assert_eq!(count, events);
        std::fs::remove_file(&path).unwrap();
        most
    };
    let short = measure(100_000);
    let long = measure(1_000_000);
    assert!(
        long <= short + (64 << 10),
        "{short} bytes for 10^5 events, {long} for 10^6"
    );
    assert!(long < 2 << 20, "{long} bytes");
}
