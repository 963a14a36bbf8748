//! Schedules of custom events only.

use norns_control::{Act, Core, Happened, Line, Schedule, Stop, Tried, Turn};
use norns_wire::Code;
use norns_wire::report::Why;
use norns_wire::schedule::Step;

use crate::scenarios::{GOT, Game, LOCK, MAIN, NAMES, ONE, TWO, memory, point};

fn following<'m>(steps: &'m [Step]) -> impl FnOnce(&mut Core<'m>) {
    move |core| {
        core.follow(Schedule {
            names: &NAMES,
            steps,
            events_only: true,
            ..Schedule::empty()
        });
    }
}

/// ONE holds the lock that TWO needs first. Only when it gets it does TWO come to its event.
#[test]
fn a_schedule_of_events_binds_nothing_else() {
    let mut memory = memory();
    let steps = [point(2, Code::Custom, 0), point(1, Code::Custom, 0)];
    let mut game = Game::new(&mut memory, following(&steps));
    assert_eq!(game.lock(ONE, LOCK, GOT), Act::Go(Turn::Free));
    let blocked = game.lock(TWO, LOCK, Tried::Busy);
    assert!(matches!(blocked, Act::Sleep(_)));
    assert_eq!(game.arrive(ONE, Code::Unlock, LOCK), Act::Go(Turn::Free));
    game.say(ONE, Happened::Releases(LOCK));
    game.say(ONE, Happened::Changes(LOCK));
    let waits = game.arrive(ONE, Code::Custom, 0);
    assert!(matches!(waits, Act::Sleep(_)));
    assert_eq!(game.wakes_after(TWO, blocked), Act::Try);
    assert_eq!(game.say(TWO, Happened::Tried(GOT)), Act::Go(Turn::Free));
    assert_eq!(game.arrive(TWO, Code::Custom, 0), Act::Go(Turn::Succeeds));
    game.say(TWO, Happened::Completes);
    assert_eq!(game.wakes_after(ONE, waits), Act::Go(Turn::Succeeds));
    game.say(ONE, Happened::Completes);
    assert_eq!(game.lines, [Line::Followed { steps: 2 }]);
}

/// The thread of the next event needs what a thread holds that waits for its turn.
#[test]
fn a_schedule_of_events_is_given_up_when_nobody_can_go_on() {
    let mut memory = memory();
    let steps = [point(2, Code::Custom, 0), point(1, Code::Custom, 0)];
    let mut game = Game::new(&mut memory, following(&steps));
    assert_eq!(game.arrive(MAIN, Code::End, 0), Act::Go(Turn::Free));
    game.say(MAIN, Happened::Ends);
    assert_eq!(game.lock(ONE, LOCK, GOT), Act::Go(Turn::Free));
    assert!(matches!(game.lock(TWO, LOCK, Tried::Busy), Act::Sleep(_)));
    game.all_asleep = true;
    let act = game.arrive(ONE, Code::Custom, 0);
    let act = game.sleeps(ONE, act);
    let Act::Stop(Stop::Diverged(diverged)) = act else {
        panic!("{act:?}");
    };
    assert_eq!(diverged.why, Why::IsBlocked);
}
