//! Random traces: every operation, every kind of name. They need not make sense as runs.

use norns_random::Random;
use norns_trace::item::{OBJECT_KINDS, ORDERS};
use norns_trace::operation::{OPERATIONS, Operands, Shape};
use norns_trace::trace::{Custom, Value};
use norns_trace::{
    Access, Event, EventIndex, Object, ObjectId, Op, Place, PlaceId, SourcePlace, Symbol, Thread,
    ThreadId, Trace,
};

fn name(random: &mut Random) -> String {
    const NAMES: [&str; 14] = [
        "",
        "m",
        "T0.1.2",
        "a b",
        "\"quoted\\\"",
        "#",
        "#3",
        "thread",
        "norns-trace",
        "Größe",
        "\u{1b}[31mred",
        "line\nbreak\ttab",
        "std::map<int, std::string>::operator[](int const&)",
        "\u{202e}\u{0}\u{ffff}",
    ];
    (random.pick(&NAMES)).to_owned()
}

fn bytes(random: &mut Random) -> Vec<u8> {
    (0..random.below(9)).map(|_| random.draw() as u8).collect()
}

pub fn trace(seed: u64, events: usize) -> Trace {
    let mut random = Random::new(seed);
    let threads = 1 + random.below(5);
    let objects = 1 + random.below(6);
    let places = 1 + random.below(6);
    let customs = 1 + random.below(3);
    let mut trace = Trace {
        accesses_ordered: random.one_in(2),
        ..Trace::default()
    };
    for number in 0..threads {
        let parent =
            (number > 0 && random.one_in(2)).then(|| ThreadId(random.below(number) as u32));
        trace.threads.push(Thread {
            name: name(&mut random),
            parent,
        });
    }
    for _ in 0..objects {
        trace.objects.push(Object {
            kind: OBJECT_KINDS[random.below(OBJECT_KINDS.len())].1,
            address: random.number(),
            name: name(&mut random),
        });
    }
    for _ in 0..places {
        let frames = (0..random.below(4)).map(|_| SourcePlace {
            function: name(&mut random),
            file: name(&mut random),
            line: random.number() as u32,
            column: random.number() as u32,
        });
        trace.places.push(Place {
            frames: frames.collect(),
            pc: 0,
        });
        trace.places.last_mut().unwrap().pc = random.number();
    }
    let mut address = 0;
    for _ in 0..random.below(4) {
        let size = 1 + random.number() % 1000;
        address += random.number() % (1 << 50);
        trace.symbols.push(Symbol {
            address,
            size,
            name: name(&mut random),
        });
        address += size;
    }
    for _ in 0..customs {
        let fields = (0..random.below(3)).map(|_| name(&mut random)).collect();
        trace.customs.push(Custom {
            name: name(&mut random),
            fields,
        });
    }
    for index in 0..events {
        let number = random.below(OPERATIONS.len());
        let object = ObjectId(random.below(objects) as u32);
        let address = random.number().min(u64::MAX - u64::from(u32::MAX));
        let order = ORDERS[random.below(ORDERS.len())].1;
        let operands = match OPERATIONS[number].shape {
            Shape::None => Operands::None,
            Shape::Thread => Operands::Thread(ThreadId(random.below(threads) as u32)),
            Shape::Object => Operands::Object(object),
            Shape::Counted => Operands::Counted(object, random.number() as u32),
            Shape::Memory => Operands::Memory(Access {
                address,
                size: (random.number() as u32).max(1),
            }),
            Shape::Atomic => Operands::Atomic {
                address,
                size: 1 << random.below(5),
                order,
            },
            Shape::Order => Operands::Order(order),
            Shape::Custom => Operands::Custom(random.below(customs) as u32),
        };
        trace.events.push(Event {
            thread: ThreadId(random.below(threads) as u32),
            place: PlaceId(random.below(places) as u32),
            op: Op::with_operands(number as u8, operands).unwrap(),
        });
        if random.one_in(8) {
            trace.values.push(Value {
                event: EventIndex(index as u32),
                read: bytes(&mut random),
                written: bytes(&mut random),
            });
        }
    }
    trace
}
