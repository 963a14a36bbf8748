use norns_wire::environment::{Mode, Priorities};

use norns_random::Random;

#[test]
fn modes_are_their_words() {
    for mode in Mode::ALL {
        assert_eq!(Mode::parse(mode.word()), Some(*mode));
    }
    for word in ["", "Record", "record ", "replay+detect+record"] {
        assert_eq!(Mode::parse(word), None, "{word}");
    }
}

#[test]
fn priorities_are_read_back() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let priorities = Priorities {
            seed: random.number(),
            points: random.number(),
        };
        let mut text = String::new();
        priorities
            .encode(&mut text)
            .expect("a string takes all text");
        assert_eq!(Priorities::parse(&text), Some(priorities));
    }
    for text in ["", "1", "1 2 3", "1 x", "-1 2", "1  2"] {
        assert_eq!(Priorities::parse(text), None, "{text}");
    }
}
