//! Declarations and types as text.

use super::{Item, Printer};
use crate::syntax::ast::*;

impl Printer<'_> {
    pub(super) fn decls(&mut self, decls: &[DeclId], indent: usize) {
        for &decl in decls {
            self.decl(decl, indent);
            self.out.push('\n');
        }
    }

    pub(super) fn decl(&mut self, id: DeclId, indent: usize) {
        let ast = self.ast;
        let outer = std::mem::replace(&mut self.indent, indent);
        let margin = "  ".repeat(indent);
        self.out.push_str(&margin);
        match ast.decl(id) {
            Decl::Function { name, clauses, .. } => {
                for (index, clause) in clauses.iter().enumerate() {
                    if index > 0 {
                        self.out.push('\n');
                        self.out.push_str(&margin);
                    }
                    let mut items = vec![Item::Owned(ast.name(*name).to_owned())];
                    for group in &clause.groups {
                        items.push(Item::Text("("));
                        self.pats(group, &mut items);
                        items.push(Item::Text(")"));
                    }
                    items.push(Item::Text(" = "));
                    items.push(Item::Expr(clause.body, 0, true, false));
                    self.run(items);
                }
            }
            Decl::Pattern(pat, body) => self.run(vec![
                Item::Pat(*pat, 3),
                Item::Text(" = "),
                Item::Expr(*body, 0, true, false),
            ]),
            Decl::Channel(names, fields) => {
                self.out.push_str("channel ");
                self.names(names);
                if let Some(fields) = fields {
                    self.run(vec![Item::Text(" : "), Item::Expr(*fields, 0, true, false)]);
                }
            }
            Decl::Datatype {
                name, constructors, ..
            } => self.constructors("datatype ", *name, constructors),
            Decl::Subtype {
                name, constructors, ..
            } => self.constructors("subtype ", *name, constructors),
            Decl::Nametype(name, _, value) => {
                let start = format!("nametype {} = ", ast.name(*name));
                self.run(vec![Item::Owned(start), Item::Expr(*value, 0, true, false)]);
            }
            Decl::External(names) => {
                self.out.push_str("external ");
                self.names(names);
            }
            Decl::Transparent(names) => {
                self.out.push_str("transparent ");
                self.names(names);
            }
            Decl::Assert(assert) => self.assert(assert),
            Decl::Print(value) => {
                self.run(vec![
                    Item::Text("print "),
                    Item::Expr(*value, 0, true, false),
                ]);
            }
            Decl::Module {
                name,
                parameters,
                private,
                exported,
                ..
            } => {
                self.out.push_str("module ");
                self.out.push_str(ast.name(*name));
                if !parameters.is_empty() {
                    let mut items = vec![Item::Text("(")];
                    self.pats(parameters, &mut items);
                    items.push(Item::Text(")"));
                    self.run(items);
                }
                self.out.push('\n');
                self.decls(private, indent + 1);
                self.out.push_str(&format!("{margin}exports\n"));
                self.decls(exported, indent + 1);
                self.out.push_str(&format!("{margin}endmodule"));
            }
            Decl::Instance {
                name,
                of,
                arguments,
                ..
            } => {
                let start = format!("instance {} = {}", ast.name(*name), ast.name(*of));
                self.out.push_str(&start);
                if !arguments.is_empty() {
                    let mut items = vec![Item::Text("(")];
                    self.list(arguments, false, &mut items);
                    items.push(Item::Text(")"));
                    self.run(items);
                }
            }
            Decl::Timed { function, decls } => {
                self.out.push_str("Timed");
                if let Some(function) = function {
                    self.run(vec![
                        Item::Text("("),
                        Item::Expr(*function, 0, true, false),
                        Item::Text(")"),
                    ]);
                }
                self.out.push_str(" {\n");
                self.decls(decls, indent + 1);
                self.out.push_str(&margin);
                self.out.push('}');
            }
            Decl::Annotation(names, scheme) => {
                self.names(names);
                self.out.push_str(" :: ");
                if !scheme.constraints.is_empty() {
                    let all: Vec<String> = scheme
                        .constraints
                        .iter()
                        .map(|(class, variable, _)| {
                            format!("{} {}", ast.name(*class), ast.name(*variable))
                        })
                        .collect();
                    self.out.push_str(&format!("({}) => ", all.join(", ")));
                }
                self.type_expr(scheme.body, 0);
            }
        }
        self.indent = outer;
    }

    pub(super) fn names(&mut self, names: &[(Symbol, crate::syntax::source::Span)]) {
        for (index, (name, _)) in names.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.out.push_str(self.ast.name(*name));
        }
    }

    pub(super) fn constructors(&mut self, word: &str, name: Symbol, constructors: &[Constructor]) {
        self.out.push_str(word);
        self.out.push_str(self.ast.name(name));
        for (index, constructor) in constructors.iter().enumerate() {
            self.out.push_str(if index == 0 { " = " } else { " | " });
            self.out.push_str(self.ast.name(constructor.name));
            if let Some(fields) = constructor.fields {
                self.run(vec![Item::Text("."), Item::Expr(fields, 1, false, false)]);
            }
        }
    }

    pub(super) fn assert(&mut self, assert: &AssertDecl) {
        let mut items = vec![Item::Text("assert ")];
        if assert.negated {
            items.push(Item::Text("not "));
        }
        items.push(Item::Expr(assert.process, 1, false, false));
        let property = |name: &str, model: &Option<Model>| {
            Item::Owned(match model {
                Some(model) => format!(" :[{name} [{}]]", model.letters()),
                None => format!(" :[{name}]"),
            })
        };
        match &assert.property {
            Property::Refines(model, implementation) => {
                items.push(Item::Owned(format!(" [{}= ", model.letters())));
                items.push(Item::Expr(*implementation, 1, false, false));
            }
            Property::DeadlockFree(model) => items.push(property("deadlock free", model)),
            Property::DivergenceFree(model) => items.push(property("divergence free", model)),
            Property::Deterministic(model) => items.push(property("deterministic", model)),
            Property::HasTrace(model, events) => {
                items.push(property("has trace", model));
                items.push(Item::Text(": <"));
                self.list(events, true, &mut items);
                items.push(Item::Text(">"));
            }
        }
        for (option, _) in &assert.options {
            match option {
                ModelOption::TauPriority(set) => {
                    items.push(Item::Text(" :[tau priority]: "));
                    items.push(Item::Expr(*set, 1, false, false));
                }
                ModelOption::PartialOrderReduce(None) => {
                    items.push(Item::Text(" :[partial order reduce]"));
                }
                ModelOption::PartialOrderReduce(Some(how)) => {
                    items.push(Item::Owned(format!(" :[partial order reduce [{how}]]")));
                }
            }
        }
        self.run(items);
    }

    // Types nest no deeper than brackets do.
    pub(super) fn type_expr(&mut self, id: TypeId, least: u8) {
        let ast = self.ast;
        let node = ast.type_expr(id);
        let level = match node {
            TypeExpr::Function(..) | TypeExpr::Dotable(..) | TypeExpr::Extendable(..) => 0,
            TypeExpr::Dot(..) => 1,
            _ => 2,
        };
        if level < least {
            self.out.push('(');
        }
        match node {
            TypeExpr::Name(name) => self.out.push_str(ast.name(*name)),
            TypeExpr::Set(inner) => {
                self.out.push('{');
                self.type_expr(*inner, 0);
                self.out.push('}');
            }
            TypeExpr::Seq(inner) => {
                self.out.push('<');
                self.type_expr(*inner, 0);
                self.out.push('>');
            }
            TypeExpr::Map(key, value) => {
                self.out.push_str("(| ");
                self.type_expr(*key, 1);
                self.out.push_str(" => ");
                self.type_expr(*value, 0);
                self.out.push_str(" |)");
            }
            TypeExpr::Tuple(items) => {
                self.out.push('(');
                self.types(items);
                self.out.push(')');
            }
            TypeExpr::Dot(left, right) => {
                self.type_expr(*left, 2);
                self.out.push('.');
                self.type_expr(*right, 1);
            }
            TypeExpr::Dotable(left, right) => {
                self.type_expr(*left, 1);
                self.out.push_str(" => ");
                self.type_expr(*right, 0);
            }
            TypeExpr::Extendable(variable, result) => {
                self.out.push_str(ast.name(*variable));
                self.out.push_str(" =>* ");
                self.type_expr(*result, 0);
            }
            TypeExpr::Function(arguments, result) => {
                self.out.push('(');
                self.types(arguments);
                self.out.push_str(") -> ");
                self.type_expr(*result, 0);
            }
        }
        if level < least {
            self.out.push(')');
        }
    }

    pub(super) fn types(&mut self, items: &[TypeId]) {
        for (index, &item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.type_expr(item, 0);
        }
    }
}
