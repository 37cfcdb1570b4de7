//! Steps of a client of the server.

use super::super::{Connection, request};
use super::kind::Form;
use super::step::Key;
use super::{Client, Gone, Life, Outcome, PIPELINE};

/// Executes the commands that it is given, each as the number of its words and these.
const SCRIPT: &str = "local at = 1
while ARGV[at] do
    local words = {}
    for number = 1, tonumber(ARGV[at]) do words[number] = ARGV[at + number] end
    redis.call(unpack(words))
    at = at + #words + 1
end
return 'done'";

/// Writes what a step of several keys writes: those of `commands`, in their order.
const LIBRARY: &str = "#!lua name=steps
redis.register_function('step', function(keys, args)
    redis.call('SET', keys[1], args[1])
    redis.call('SET', keys[2], args[1])
    redis.call('INCR', keys[3])
    redis.call('DEL', keys[4])
    redis.call('SET', keys[5], args[1], 'PXAT', args[2])
    return 'done'
end)";

/// Where a client keeps what it saw of its neighbour, in the same transaction.
pub fn seen(id: usize) -> String {
    format!("{id}:seen")
}

impl Client {
    fn commands(&self, step: u64) -> Vec<Vec<String>> {
        let writes = self.writes(step);
        let commands = writes.iter().map(|write| match self.kind.form {
            // A command is a step, or the function has a fixed list of keys.
            Form::Single | Form::Pipeline | Form::Function => vec![write.command(&self.id, step)],
            _ => write.commands(&self.id, step),
        });
        commands.flatten().collect()
    }

    pub(super) fn single(&self, connection: &mut Connection, step: u64) -> Outcome {
        let [command] = &self.commands(step)[..] else {
            panic!("one command")
        };
        accepted(connection, command)
    }

    /// Writes its keys, and what it has read of its neighbour's.
    pub(super) fn transaction(&self, connection: &mut Connection, step: u64) -> Outcome {
        if !accepted(connection, &["BEGIN"])? {
            return Ok(false);
        }
        if !self.statements(connection, step)? {
            connection.try_ask(&["ROLLBACK"]).ok_or(Gone)?;
            return Ok(false);
        }
        let commit: &[&str] = if self.says_sync(step) {
            &["COMMIT", "SYNC"]
        } else {
            &["COMMIT"]
        };
        accepted(connection, commit)
    }

    fn statements(&self, connection: &mut Connection, step: u64) -> Outcome {
        let mark = Key::Mark.of(&self.neighbour);
        let shown = connection.try_ask(&["GET", &mark]).ok_or(Gone)?;
        if shown.starts_with('-') {
            return Ok(false);
        }
        if shown != "$-1" && !accepted(connection, &["SET", &seen(self.id), &shown])? {
            return Ok(false);
        }
        for command in self.commands(step) {
            if !accepted(connection, &command)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn block(&self, connection: &mut Connection, step: u64) -> Outcome {
        let commands = self.commands(step);
        let mut message = request(&["MULTI"]);
        message.extend(commands.iter().map(|command| request(command)));
        message += &request(&["EXEC"]);
        connection.try_send_text(&message).ok_or(Gone)?;
        for expected in 0..=commands.len() {
            let told = connection.try_line().ok_or(Gone)?;
            let expected = ["+OK", "+QUEUED"][expected.min(1)];
            assert_eq!(told, expected, "client {}", self.id);
        }
        self.replies_of_block(connection, &commands)
    }

    fn replies_of_block(&self, connection: &mut Connection, commands: &[Vec<String>]) -> Outcome {
        let mut line = || connection.try_line().ok_or(Gone);
        if line()? != format!("*{}", commands.len()) {
            return Ok(false);
        }
        for command in commands {
            let told = line()?;
            let id = self.id;
            assert!(
                !told.starts_with('-'),
                "{command:?} in a block of client {id}: {told}"
            );
        }
        Ok(true)
    }

    pub(super) fn block_in_pieces(&self, connection: &mut Connection, step: u64) -> Outcome {
        self.pieces(connection, &self.commands(step))
    }

    /// Writes its keys, and what it has read of its neighbour's, if that is as it was.
    pub(super) fn watched(&self, connection: &mut Connection, step: u64) -> Outcome {
        let mark = Key::Mark.of(&self.neighbour);
        let told = connection.try_ask(&["WATCH", &mark]).ok_or(Gone)?;
        assert_eq!(told, "+OK", "client {}", self.id);
        let shown = connection.try_ask(&["GET", &mark]).ok_or(Gone)?;
        if shown.starts_with('-') {
            connection.try_ask(&["UNWATCH"]).ok_or(Gone)?;
            return Ok(false);
        }
        let mut commands = self.commands(step);
        if shown != "$-1" {
            commands.insert(0, ["SET", &seen(self.id), &shown].map(str::to_owned).into());
        }
        self.pieces(connection, &commands)
    }

    fn pieces(&self, connection: &mut Connection, commands: &[Vec<String>]) -> Outcome {
        let told = connection.try_ask(&["MULTI"]).ok_or(Gone)?;
        assert_eq!(told, "+OK", "client {}", self.id);
        for command in commands {
            connection.try_send_text(&request(command)).ok_or(Gone)?;
            let told = connection.try_line().ok_or(Gone)?;
            assert_eq!(told, "+QUEUED", "client {}", self.id);
        }
        connection.try_send_text(&request(&["EXEC"])).ok_or(Gone)?;
        self.replies_of_block(connection, commands)
    }

    pub(super) fn script(&self, connection: &mut Connection, step: u64) -> Outcome {
        let mut words: Vec<String> = ["EVAL", SCRIPT, "0"].map(str::to_owned).into();
        for command in self.commands(step) {
            words.push(command.len().to_string());
            words.extend(command);
        }
        accepted(connection, &words)
    }

    /// It may be there already.
    pub(super) fn load_function(connection: &mut Connection) -> Result<(), Gone> {
        let told = connection.try_ask(&["FUNCTION", "LOAD", LIBRARY]);
        let told = told.ok_or(Gone)?;
        let is_there = told == "steps" || told.contains("already exists");
        // Somebody else may load it at this moment.
        assert!(is_there || told.starts_with("-CONFLICT"), "{told}");
        Ok(())
    }

    pub(super) fn function(&self, connection: &mut Connection, step: u64) -> Outcome {
        let commands = self.commands(step);
        let mut words: Vec<&str> = vec!["FCALL", "step", "5"];
        words.extend(commands.iter().map(|command| command[1].as_str()));
        let [.., far] = &commands[..] else {
            panic!("five commands")
        };
        let [_, _, value, _, expiry] = &far[..] else {
            panic!("SET with a time")
        };
        words.extend([value.as_str(), expiry]);
        accepted(connection, &words)
    }

    /// Each command is a step. One that is refused changes nothing, and those after it do.
    pub(super) fn pipeline(
        &mut self,
        connection: &mut Connection,
        first: u64,
        life: Life<'_>,
    ) -> Result<(), Gone> {
        let steps = first..first + PIPELINE;
        let commands = steps.clone().flat_map(|step| self.commands(step));
        let message: String = commands.map(|command| request(&command)).collect();
        connection.try_send_text(&message).ok_or(Gone)?;
        for step in steps {
            if connection.try_line().ok_or(Gone)?.starts_with('-') {
                self.history.refused(step);
            } else {
                self.acknowledged(step, self.is_durable(step, life));
            }
        }
        Ok(())
    }
}

/// Was there a reply that is no error?
fn accepted<S: AsRef<str>>(connection: &mut Connection, command: &[S]) -> Outcome {
    connection.try_send_text(&request(command)).ok_or(Gone)?;
    let told = connection.try_reply().ok_or(Gone)?;
    Ok(!told.starts_with('-'))
}
