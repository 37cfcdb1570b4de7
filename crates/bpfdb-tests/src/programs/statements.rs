//! Statements.

use super::Writer;

impl Writer {
    pub(super) fn statement(&mut self, depth: usize, in_function: bool) {
        match self.random.below(if depth == 0 { 7 } else { 17 }) {
            0 | 1 => self.declare(),
            2 => self.declare_two(),
            3 | 4 => self.assign(),
            5 => self.assign_two(),
            6 => self.command(),
            7 | 8 => self.choice(depth, in_function),
            9 => self.count(depth, in_function),
            10 => self.each(depth, in_function),
            11 => self.while_loop(depth, in_function),
            12 => self.repeat_loop(depth, in_function),
            13 => self.function(depth, in_function),
            14 => self.table(),
            15 => self.several(),
            _ => {
                self.line("do");
                self.block(depth, in_function);
                self.line("end");
            }
        }
    }

    /// The statements of a block; what it declares is gone after it.
    fn block(&mut self, depth: usize, in_function: bool) {
        let before = (
            self.variables.len(),
            self.constants.len(),
            self.functions.len(),
            self.tables.len(),
        );
        self.depth += 1;
        for _ in 0..=self.random.below(depth) {
            self.statement(depth - 1, in_function);
        }
        if self.random.below(6) == 0 {
            if self.loops > 0 && self.random.below(2) == 0 {
                self.line("break");
            } else {
                self.result(in_function);
            }
        }
        self.depth -= 1;
        self.variables.truncate(before.0);
        self.constants.truncate(before.1);
        self.functions.truncate(before.2);
        self.tables.truncate(before.3);
    }

    pub(super) fn result(&mut self, in_function: bool) {
        let value = self.expression(2);
        let what = if in_function { 9 } else { self.random.below(9) };
        let line = match what {
            0 => format!(
                "return {{{value}, {}, {}}}",
                self.expression(1),
                self.expression(2)
            ),
            1 => format!("return {value}, {}", self.expression(1)),
            2 => "return redis.error_reply('MY oops')".into(),
            3 => format!("return {{ok = {value} .. ''}}"),
            4 => "return redis.call('mget', KEYS[1], 'k2', KEYS[3])".into(),
            5 => format!("return redis.status_reply('S' .. {value})"),
            _ => format!("return {value}"),
        };
        self.line(&line);
    }

    fn declare(&mut self) {
        let value = self.expression(3);
        let name = self.name();
        self.line(&format!("local {name} = {value}"));
        self.variables.push(name);
    }

    fn declare_two(&mut self) {
        let (a, b) = (self.name(), self.name());
        let values = self.one_or_two();
        self.line(&format!("local {a}, {b} = {values}"));
        self.variables.extend([a, b]);
    }

    fn one_or_two(&mut self) -> String {
        let first = self.expression(2);
        match self.random.below(3) {
            0 => first,
            _ => format!("{first}, {}", self.expression(2)),
        }
    }

    fn any_variable(&mut self) -> Option<String> {
        if self.variables.is_empty() {
            return None;
        }
        let number = self.random.below(self.variables.len());
        Some(self.variables[number].clone())
    }

    fn assign(&mut self) {
        if let Some(name) = self.any_variable() {
            let value = self.expression(3);
            self.line(&format!("{name} = {value}"));
        }
    }

    fn assign_two(&mut self) {
        let (Some(a), Some(b)) = (self.any_variable(), self.any_variable()) else {
            return;
        };
        let values = match self.random.below(2) {
            0 => format!("{b}, {a}"),
            _ => self.one_or_two(),
        };
        self.line(&format!("{a}, {b} = {values}"));
    }

    fn command(&mut self) {
        let (key, value) = (self.key(), self.expression(2));
        let line = match self.random.below(6) {
            0 => format!("redis.call('SET', {key}, {value})"),
            1 => format!("redis.call('append', {key}, {value})"),
            2 => format!("redis.call('mset', {key}, {value}, 'k2', 5)"),
            3 => format!("redis.call('expire', {key}, {})", self.number(1)),
            4 => format!("redis.call('decrby', {key}, {})", self.number(1)),
            _ => format!("redis.call('incr', {key})"),
        };
        self.line(&line);
    }

    fn choice(&mut self, depth: usize, in_function: bool) {
        let condition = self.condition(3);
        self.line(&format!("if {condition} then"));
        self.block(depth, in_function);
        while self.random.below(3) == 0 {
            let condition = self.condition(2);
            self.line(&format!("elseif {condition} then"));
            self.block(depth, in_function);
        }
        if self.random.below(2) == 0 {
            self.line("else");
            self.block(depth, in_function);
        }
        self.line("end");
    }

    fn loop_body(&mut self, depth: usize, in_function: bool) {
        self.loops += 1;
        self.block(depth, in_function);
        self.loops -= 1;
    }

    fn count(&mut self, depth: usize, in_function: bool) {
        let name = self.name();
        let (first, last) = (self.number(1), self.number(1));
        let step = self.random.one(&["", ", 2", ", -1", ", 3"]);
        // Numbers may be large, and Redis does not end.
        let bounded = |number| format!("math.max(math.min({number}, 12), -12)");
        let (first, last) = (bounded(first), bounded(last));
        self.line(&format!("for {name} = {first}, {last}{step} do"));
        self.variables.push(name.clone());
        self.loop_body(depth, in_function);
        self.variables.retain(|known| *known != name);
        self.line("end");
    }

    fn each(&mut self, depth: usize, in_function: bool) {
        let (place, word) = (self.name(), self.name());
        let words = self.random.one(&["KEYS", "ARGV"]);
        self.line(&format!("for {place}, {word} in ipairs({words}) do"));
        self.variables.extend([place.clone(), word.clone()]);
        self.loop_body(depth, in_function);
        self.variables
            .retain(|known| *known != place && *known != word);
        self.line("end");
    }

    fn while_loop(&mut self, depth: usize, in_function: bool) {
        let name = self.name();
        self.line(&format!("local {name} = 0"));
        let condition = self.condition(1);
        let rounds = self.random.below(5);
        self.line(&format!("while {name} < {rounds} or ({condition}) do"));
        self.line(&format!(
            "  {name} = {name} + 1; if {name} > 5 then break end"
        ));
        self.constants.push(name.clone());
        self.loop_body(depth, in_function);
        self.constants.retain(|known| *known != name);
        self.line("end");
    }

    fn repeat_loop(&mut self, depth: usize, in_function: bool) {
        let (name, inner) = (self.name(), self.name());
        self.line(&format!("local {name} = 0"));
        self.line("repeat");
        let value = self.expression(2);
        self.line(&format!("  {name} = {name} + 1; local {inner} = {value}"));
        self.constants.push(name.clone());
        self.loop_body(depth, in_function);
        self.constants.retain(|known| *known != name);
        self.line(&format!("until {name} > 2 or {inner} == {name}"));
    }

    fn function(&mut self, depth: usize, in_function: bool) {
        if in_function && self.random.below(3) > 0 {
            return;
        }
        let name = self.name();
        let parameters: Vec<String> = (0..self.random.below(3)).map(|_| self.name()).collect();
        self.line(&format!("local function {name}({})", parameters.join(", ")));
        let loops = std::mem::take(&mut self.loops);
        let variables = std::mem::take(&mut self.variables);
        let constants = self.constants.clone();
        // A function that assigns to variables around it is not compiled.
        self.constants.extend(variables.clone());
        self.variables.clone_from(&parameters);
        self.block(depth, true);
        self.loops = loops;
        self.variables = variables;
        self.constants = constants;
        self.line("end");
        self.functions.push((name, parameters.len()));
    }

    fn table(&mut self) {
        let name = self.name();
        let count = 1 + self.random.below(3);
        let values: Vec<_> = (0..count).map(|_| self.expression(2)).collect();
        self.line(&format!("local {name} = {{{}}}", values.join(", ")));
        self.tables.push((name, count));
    }

    fn several(&mut self) {
        let name = self.name();
        self.line(&format!("local {name} = redis.call('mget', KEYS[1], 'k2')"));
        self.tables.push((name, 2));
    }
}
