//! Which variable a name means.

use super::super::syntax::{Target, Variable, VariableId};

#[derive(Default)]
pub(super) struct Scopes {
    pub(super) variables: Vec<Variable>,
    /// Those that can be seen here, the nearest last.
    visible: Vec<VariableId>,
    /// Functions around here.
    depth: usize,
    /// The first line of the function around here on which Lua may make -0 of literals.
    pub(super) minus_zero: Option<u32>,
}

impl Scopes {
    /// A variable that is seen from now on.
    pub(super) fn declare(&mut self, name: String) -> VariableId {
        let id = VariableId(self.variables.len());
        self.variables.push(Variable {
            name,
            assigned: false,
            depth: self.depth,
        });
        self.visible.push(id);
        id
    }

    /// What `part` declares is not seen behind it.
    pub(super) fn scope<T>(&mut self, part: impl FnOnce(&mut Self) -> T) -> T {
        let seen = self.visible.len();
        let read = part(self);
        self.visible.truncate(seen);
        read
    }

    pub(super) fn function<T>(&mut self, part: impl FnOnce(&mut Self) -> T) -> T {
        self.depth += 1;
        let read = self.scope(part);
        self.depth -= 1;
        read
    }

    /// `None`: it is global.
    pub(super) fn find(&self, name: &str) -> Option<VariableId> {
        let mut nearest = self.visible.iter().rev();
        nearest
            .find(|id| self.variables[id.0].name == name)
            .copied()
    }

    /// An assignment to a name.
    pub(super) fn assign(&mut self, name: String) -> Target {
        let Some(id) = self.find(&name) else {
            return Target::Global(name);
        };
        let variable = &mut self.variables[id.0];
        variable.assigned = true;
        match variable.depth == self.depth {
            true => Target::Local(id),
            false => Target::Outer(id),
        }
    }
}
