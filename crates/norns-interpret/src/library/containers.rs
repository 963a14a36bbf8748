//! The functions of libstdc++ behind `std::map`, `std::set` and `std::list`.
//!
//! A node of a tree has its colour, parent, left and right child at the offsets of `_Rb_tree_node_base`; the
//! header's parent is the root, its children are the first and the last node. Rebalancing follows the
//! textbook (red-black trees), so the shape can differ from the library's, which no program sees.

use super::{Call, Done, Flow, Model, int};
use crate::machine::{Stop, give_up};

const RED: u64 = 0;
const BLACK: u64 = 1;
const COLOUR: u64 = 0;
const PARENT: u64 = 8;
const LEFT: u64 = 16;
const RIGHT: u64 = 24;

pub(super) fn find(name: &str) -> Option<Model> {
    Some(match name {
        "_ZSt18_Rb_tree_incrementPSt18_Rb_tree_node_base"
        | "_ZSt18_Rb_tree_incrementPKSt18_Rb_tree_node_base" => |call| step(call, LEFT, RIGHT),
        "_ZSt18_Rb_tree_decrementPSt18_Rb_tree_node_base"
        | "_ZSt18_Rb_tree_decrementPKSt18_Rb_tree_node_base" => decrement,
        "_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_" => insert,
        "_ZSt28_Rb_tree_rebalance_for_erasePSt18_Rb_tree_node_baseRS_" => {
            |_| give_up("the removal of an element of a std::map or std::set")
        }
        "_ZNSt8__detail15_List_node_base7_M_hookEPS0_" => hook,
        "_ZNSt8__detail15_List_node_base9_M_unhookEv" => unhook,
        _ => return None,
    })
}

impl Call<'_, '_> {
    fn link(&self, node: u64, field: u64) -> Result<u64, Stop> {
        self.load(node + field, 8)
    }

    fn set_link(&mut self, node: u64, field: u64, to: u64) -> Result<(), Stop> {
        self.store(node + field, 8, to)
    }

    fn colour(&self, node: u64) -> Result<u64, Stop> {
        match node {
            0 => Ok(BLACK),
            _ => self.load(node + COLOUR, 4),
        }
    }

    /// Lets a node's child on one side take its place.
    fn rotate(&mut self, node: u64, header: u64, side: u64) -> Result<(), Stop> {
        let other = LEFT + RIGHT - side;
        let child = self.link(node, other)?;
        let inner = self.link(child, side)?;
        self.set_link(node, other, inner)?;
        if inner != 0 {
            self.set_link(inner, PARENT, node)?;
        }
        let parent = self.link(node, PARENT)?;
        self.set_link(child, PARENT, parent)?;
        if parent == header {
            self.set_link(header, PARENT, child)?;
        } else if self.link(parent, LEFT)? == node {
            self.set_link(parent, LEFT, child)?;
        } else {
            self.set_link(parent, RIGHT, child)?;
        }
        self.set_link(child, side, node)?;
        self.set_link(node, PARENT, child)
    }
}

/// The next node in the order in which `first` comes before `then`.
fn step(call: &mut Call<'_, '_>, first: u64, then: u64) -> Done {
    let mut node = call.argument(0);
    let child = call.link(node, then)?;
    if child != 0 {
        node = child;
        while let next @ 1.. = call.link(node, first)? {
            node = next;
        }
        return Ok(Flow::Return(node));
    }
    let mut parent = call.link(node, PARENT)?;
    while call.link(parent, then)? == node {
        node = parent;
        parent = call.link(parent, PARENT)?;
    }
    // The root's parent is the header, whose parent is the root.
    let is_header = call.link(node, then)? == parent;
    Ok(Flow::Return(if is_header { node } else { parent }))
}

fn decrement(call: &mut Call<'_, '_>) -> Done {
    let node = call.argument(0);
    let parent = call.link(node, PARENT)?;
    // The header is red, and its parent's parent is itself.
    if call.colour(node)? == RED && parent != 0 && call.link(parent, PARENT)? == node {
        return Ok(Flow::Return(call.link(node, RIGHT)?));
    }
    step(call, RIGHT, LEFT)
}

fn insert(call: &mut Call<'_, '_>) -> Done {
    let (is_left, mut node, parent, header) = (
        call.argument(0) & 1 == 1,
        call.argument(1),
        call.argument(2),
        call.argument(3),
    );
    call.set_link(node, PARENT, parent)?;
    call.set_link(node, LEFT, 0)?;
    call.set_link(node, RIGHT, 0)?;
    call.store(node + COLOUR, 4, RED)?;
    if parent == header {
        for field in [PARENT, LEFT, RIGHT] {
            call.set_link(header, field, node)?;
        }
    } else {
        let side = if is_left { LEFT } else { RIGHT };
        call.set_link(parent, side, node)?;
        if call.link(header, side)? == parent {
            call.set_link(header, side, node)?;
        }
    }
    loop {
        let parent = call.link(node, PARENT)?;
        if parent == header || call.colour(parent)? == BLACK {
            break;
        }
        let grandparent = call.link(parent, PARENT)?;
        let side = match call.link(grandparent, LEFT)? == parent {
            true => LEFT,
            false => RIGHT,
        };
        let other = LEFT + RIGHT - side;
        let uncle = call.link(grandparent, other)?;
        if call.colour(uncle)? == RED {
            call.store(parent + COLOUR, 4, BLACK)?;
            call.store(uncle + COLOUR, 4, BLACK)?;
            call.store(grandparent + COLOUR, 4, RED)?;
            node = grandparent;
            continue;
        }
        if call.link(parent, other)? == node {
            node = parent;
            call.rotate(node, header, side)?;
        }
        let parent = call.link(node, PARENT)?;
        call.store(parent + COLOUR, 4, BLACK)?;
        call.store(grandparent + COLOUR, 4, RED)?;
        call.rotate(grandparent, header, other)?;
    }
    let root = call.link(header, PARENT)?;
    call.store(root + COLOUR, 4, BLACK)?;
    int(0)
}

/// Puts a node of a list before another one: `next` is its first pointer, `previous` the second.
fn hook(call: &mut Call<'_, '_>) -> Done {
    let (node, position) = (call.argument(0), call.argument(1));
    let previous = call.link(position, 8)?;
    call.set_link(node, 0, position)?;
    call.set_link(node, 8, previous)?;
    call.set_link(previous, 0, node)?;
    call.set_link(position, 8, node)?;
    int(0)
}

fn unhook(call: &mut Call<'_, '_>) -> Done {
    let node = call.argument(0);
    let (next, previous) = (call.link(node, 0)?, call.link(node, 8)?);
    call.set_link(previous, 0, next)?;
    call.set_link(next, 8, previous)?;
    int(0)
}
