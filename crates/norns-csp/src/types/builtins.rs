//! The types of the built-in names.

use super::ty::{Constraint, Scheme, Ty, TyId, Types};
use crate::builtin::Builtin;

/// The type of a built-in, with its own variables.
pub fn scheme(types: &mut Types, builtin: Builtin) -> Scheme {
    let outer = types.level;
    types.level = outer + 1;
    let body = body(types, builtin);
    types.level = outer;
    types.generalise(body)
}

fn body(types: &mut Types, builtin: Builtin) -> TyId {
    use Builtin::*;
    let function = |types: &mut Types, arguments: &[TyId], result: TyId| {
        types.add(Ty::Function(arguments.into(), result))
    };
    let pair_set = |types: &mut Types, a: TyId, b: TyId| {
        let pair = types.add(Ty::Tuple([a, b].into()));
        types.set_of(pair)
    };
    let process = Types::PROC;
    match builtin {
        union | inter | diff => {
            let element = types.fresh_with(Constraint::Set.bit());
            let s = types.set_of(element);
            function(types, &[s, s], s)
        }
        Union | Inter => {
            let element = types.fresh_with(Constraint::Set.bit());
            let s = types.set_of(element);
            let sets = types.set_of(s);
            function(types, &[sets], s)
        }
        member => {
            let element = types.fresh_with(Constraint::Eq.bit());
            let s = types.set_of(element);
            function(types, &[element, s], Types::BOOL)
        }
        card => {
            let element = types.fresh_with(Constraint::Eq.bit());
            let s = types.set_of(element);
            function(types, &[s], Types::INT)
        }
        empty => {
            let element = types.fresh_with(Constraint::Eq.bit());
            let s = types.set_of(element);
            function(types, &[s], Types::BOOL)
        }
        set => {
            let element = types.fresh_with(Constraint::Set.bit());
            let (s, q) = (types.set_of(element), types.seq_of(element));
            function(types, &[q], s)
        }
        Set => {
            let element = types.fresh_with(Constraint::Set.bit());
            let s = types.set_of(element);
            let sets = types.set_of(s);
            function(types, &[s], sets)
        }
        Seq => {
            let element = types.fresh_with(Constraint::Set.bit());
            let (s, q) = (types.set_of(element), types.seq_of(element));
            let seqs = types.set_of(q);
            function(types, &[s], seqs)
        }
        seq => {
            let element = types.fresh_with(Constraint::Eq.bit());
            let (s, q) = (types.set_of(element), types.seq_of(element));
            function(types, &[s], q)
        }
        length => {
            let element = types.fresh();
            let q = types.seq_of(element);
            function(types, &[q], Types::INT)
        }
        null => {
            let element = types.fresh();
            let q = types.seq_of(element);
            function(types, &[q], Types::BOOL)
        }
        head => {
            let element = types.fresh();
            let q = types.seq_of(element);
            function(types, &[q], element)
        }
        tail => {
            let element = types.fresh();
            let q = types.seq_of(element);
            function(types, &[q], q)
        }
        concat => {
            let element = types.fresh();
            let q = types.seq_of(element);
            let qs = types.seq_of(q);
            function(types, &[qs], q)
        }
        elem => {
            let element = types.fresh_with(Constraint::Eq.bit());
            let q = types.seq_of(element);
            function(types, &[element, q], Types::BOOL)
        }
        emptyMap | mapFromList | mapLookup | mapMember | mapToList | mapUpdate
        | mapUpdateMultiple | mapDelete => {
            let key = types.fresh_with(Constraint::Set.bit());
            let value = types.fresh();
            let map = types.add(Ty::Map(key, value));
            let pair = types.add(Ty::Tuple([key, value].into()));
            let pairs = types.seq_of(pair);
            match builtin {
                emptyMap => map,
                mapFromList => function(types, &[pairs], map),
                mapLookup => function(types, &[map, key], value),
                mapMember => function(types, &[map, key], Types::BOOL),
                mapToList => function(types, &[map], pairs),
                mapUpdate => function(types, &[map, key, value], map),
                mapUpdateMultiple => function(types, &[map, pairs], map),
                _ => function(types, &[map, key], map),
            }
        }
        Map => {
            let key = types.fresh_with(Constraint::Set.bit());
            let value = types.fresh_with(Constraint::Set.bit());
            let map = types.add(Ty::Map(key, value));
            let (keys, values, maps) = (types.set_of(key), types.set_of(value), types.set_of(map));
            function(types, &[keys, values], maps)
        }
        extensions => {
            let argument = types.fresh();
            let result = types.fresh_with(Constraint::Yieldable.bit());
            let dotable = types.add(Ty::Dotable(argument, result));
            let s = types.set_of(argument);
            function(types, &[dotable], s)
        }
        productions => {
            let result = types.fresh_with(Constraint::Yieldable.bit());
            let more = types.fresh_var(0);
            let extendable = types.add(Ty::Extendable(result, more));
            let s = types.set_of(result);
            function(types, &[extendable], s)
        }
        error => {
            let text = types.seq_of(Types::CHAR);
            let result = types.fresh();
            function(types, &[text], result)
        }
        show => {
            let argument = types.fresh();
            let text = types.seq_of(Types::CHAR);
            function(types, &[argument], text)
        }
        STOP | SKIP | DIV => process,
        WAIT => function(types, &[Types::INT], process),
        CHAOS | RUN => function(types, &[Types::EVENTS], process),
        BUFFER => {
            let pairs = pair_set(types, Types::EVENT, Types::EVENT);
            function(types, &[Types::INT, pairs], process)
        }
        WEAK_BUFFER => {
            let pairs = pair_set(types, Types::EVENT, Types::EVENT);
            function(types, &[Types::INT, Types::EVENT, pairs], process)
        }
        SIGNAL_BUFFER => {
            let pairs = pair_set(types, Types::EVENT, Types::EVENT);
            let arguments = [Types::INT, Types::EVENT, Types::EVENT, pairs];
            function(types, &arguments, process)
        }
        Int => types.set_of(Types::INT),
        Bool => types.set_of(Types::BOOL),
        Char => types.set_of(Types::CHAR),
        Proc => types.set_of(Types::PROC),
        Events => Types::EVENTS,
        True | False => Types::BOOL,
        explicate | lazyenumerate | diamond | normal | normalise | lazynorm | sbisim
        | tau_loop_factor | model_compress | wbisim | dbisim | chase | chase_nocache | deter
        | r#loop | timed_priority => function(types, &[process], process),
        failure_watchdog | trace_watchdog => {
            function(types, &[process, Types::EVENTS, Types::EVENT], process)
        }
        prioritise | prioritise_nocache => {
            let sets = types.seq_of(Types::EVENTS);
            function(types, &[process, sets], process)
        }
        prioritisepo => {
            let pairs = pair_set(types, Types::EVENT, Types::EVENT);
            function(
                types,
                &[process, Types::EVENTS, pairs, Types::EVENTS],
                process,
            )
        }
        mtransclose => {
            let element = types.fresh_with(Constraint::Eq.bit());
            let pairs = pair_set(types, element, element);
            let s = types.set_of(element);
            function(types, &[pairs, s], pairs)
        }
        relational_image => {
            let from = types.fresh_with(Constraint::Eq.bit());
            let to = types.fresh_with(Constraint::Set.bit());
            let pairs = pair_set(types, from, to);
            let s = types.set_of(to);
            let image = function(types, &[from], s);
            function(types, &[pairs], image)
        }
        relational_inverse_image => {
            let from = types.fresh_with(Constraint::Set.bit());
            let to = types.fresh_with(Constraint::Eq.bit());
            let pairs = pair_set(types, from, to);
            let s = types.set_of(from);
            let image = function(types, &[to], s);
            function(types, &[pairs], image)
        }
        transpose => {
            let from = types.fresh_with(Constraint::Set.bit());
            let to = types.fresh_with(Constraint::Set.bit());
            let pairs = pair_set(types, from, to);
            let turned = pair_set(types, to, from);
            function(types, &[pairs], turned)
        }
    }
}
