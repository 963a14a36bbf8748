//! Which outer variables an expression uses.
//!
//! Computed once for the places where evaluation may stop and continue later: a prefix with inputs
//! and its body, a prefix in a timed section, the definitions of a `let`, and a lambda. With the
//! values of these variables such a place has an identity, so that equal states of a process are
//! found equal.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::resolve::{DefId, Resolved};
use crate::syntax::ast::*;
use crate::syntax::walk::Node;

#[derive(Debug, Default)]
pub struct Closures {
    outer: FxHashMap<ExprId, Box<[DefId]>>,
}

enum Step {
    Visit(Node),
    Enter,
    Leave(ExprId),
}

#[derive(Default)]
struct Uses {
    used: FxHashSet<DefId>,
    bound: FxHashSet<DefId>,
}

impl Closures {
    pub fn new(resolved: &Resolved) -> Closures {
        let mut closures = Closures::default();
        let mut steps: Vec<Step> = resolved
            .top
            .iter()
            .map(|&decl| Step::Visit(Node::Decl(decl)))
            .collect();
        let mut open = vec![Uses::default()];
        let mut next = Vec::new();
        while let Some(step) = steps.pop() {
            match step {
                Step::Enter => open.push(Uses::default()),
                Step::Leave(id) => closures.leave(id, &mut open),
                Step::Visit(node) => {
                    visit(
                        resolved,
                        node,
                        open.last_mut().expect("never empty"),
                        &mut next,
                    );
                    steps.extend(next.drain(..).rev());
                }
            }
        }
        closures
    }

    fn leave(&mut self, id: ExprId, open: &mut Vec<Uses>) {
        let inner = open.pop().expect("every leave has its enter");
        let mut outer: Vec<DefId> = inner.used.difference(&inner.bound).copied().collect();
        outer.sort_unstable();
        if let Some(around) = open.last_mut() {
            around.used.extend(outer.iter().copied());
        }
        self.outer.insert(id, outer.into());
    }

    /// The outer variables that an expression uses, in a fixed order.
    pub fn outer(&self, id: ExprId) -> Option<&[DefId]> {
        self.outer.get(&id).map(|defs| &**defs)
    }
}

fn visit(resolved: &Resolved, node: Node, uses: &mut Uses, out: &mut Vec<Step>) {
    let ast = &resolved.ast;
    match node {
        Node::Pat(pat) => {
            let mut left = vec![pat];
            while let Some(pat) = left.pop() {
                uses.bound.extend(resolved.pat(pat));
                ast.inner_pats(pat, &mut left);
            }
        }
        Node::Decl(decl) => {
            let binds = resolved.binds.get(&decl).map(Vec::as_slice);
            uses.bound.extend(binds.unwrap_or_default());
            match ast.decl(decl) {
                Decl::Function { clauses, .. } => {
                    for clause in clauses {
                        for &pat in clause.groups.iter().flat_map(|group| group.iter()) {
                            out.push(Step::Visit(Node::Pat(pat)));
                        }
                        out.push(Step::Visit(Node::Expr(clause.body)));
                    }
                }
                Decl::Pattern(pat, body) => {
                    out.push(Step::Visit(Node::Pat(*pat)));
                    out.push(Step::Visit(Node::Expr(*body)));
                }
                Decl::Assert(assert) => {
                    out.push(Step::Visit(Node::Expr(assert.process)));
                    if let Property::Refines(_, implementation) = &assert.property {
                        out.push(Step::Visit(Node::Expr(*implementation)));
                    }
                }
                Decl::Timed {
                    function: Some(function),
                    ..
                } => out.push(Step::Visit(Node::Expr(*function))),
                Decl::Print(body) => out.push(Step::Visit(Node::Expr(*body))),
                Decl::Channel(_, Some(body)) | Decl::Nametype(_, _, body) => {
                    out.push(Step::Visit(Node::Expr(*body)));
                }
                Decl::Datatype { constructors, .. } | Decl::Subtype { constructors, .. } => {
                    let fields = constructors.iter().filter_map(|one| one.fields);
                    out.extend(fields.map(|field| Step::Visit(Node::Expr(field))));
                }
                _ => {}
            }
        }
        Node::Expr(id) => {
            if let Some(def) = resolved.expr(id)
                && !resolved.def(def).global
            {
                uses.used.insert(def);
            }
            let mut children = Vec::new();
            ast.children(id, &mut children);
            match ast.expr(id) {
                Expr::Lambda(..) => {
                    out.push(Step::Enter);
                    out.extend(children.into_iter().map(Step::Visit));
                    out.push(Step::Leave(id));
                }
                Expr::Let(decls, body) => {
                    let decls = ast.with_timed(decls);
                    // The names are bound in the body too.
                    for decl in &decls {
                        let binds = resolved.binds.get(decl).map(Vec::as_slice);
                        uses.bound.extend(binds.unwrap_or_default());
                    }
                    out.push(Step::Enter);
                    out.extend(decls.into_iter().map(|decl| Step::Visit(Node::Decl(decl))));
                    out.push(Step::Leave(id));
                    out.push(Step::Visit(Node::Expr(*body)));
                }
                Expr::Prefix { fields, body, .. } => {
                    let section = resolved.section(id);
                    let inputs = fields.iter().any(|f| !matches!(f, Field::Output(_)));
                    let closed = section.is_some() || inputs;
                    if closed {
                        out.push(Step::Enter);
                        let duration = section.and_then(|section| section.duration);
                        out.extend(duration.map(|expr| Step::Visit(Node::Expr(expr))));
                    }
                    children.pop();
                    out.extend(children.into_iter().map(Step::Visit));
                    if inputs {
                        out.push(Step::Enter);
                    }
                    out.push(Step::Visit(Node::Expr(*body)));
                    if inputs {
                        out.push(Step::Leave(*body));
                    }
                    if closed {
                        out.push(Step::Leave(id));
                    }
                }
                _ => out.extend(children.into_iter().map(Step::Visit)),
            }
        }
    }
}
