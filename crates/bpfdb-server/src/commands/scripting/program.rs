//! A script or a function, ready to be called.

use std::rc::Rc;

use bpfdb_lua::{Call, Flags};

use super::super::prelude::*;
use crate::scripting::functions::libraries::FunctionOf;
use crate::scripting::scripts::{Kind, Machine, Script};

/// What is called.
#[derive(Debug)]
pub(super) enum Program {
    Script(Rc<Script>),
    Function(FunctionOf),
}

impl Program {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Script(_) => Kind::Script,
            Self::Function(_) => Kind::Function,
        }
    }

    pub(super) fn flags(&self) -> Flags {
        match self {
            Self::Script(script) => script.flags,
            Self::Function(function) => function.registered().flags.of_call(),
        }
    }

    /// As errors name it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Script(script) => script.name.to_string(),
            Self::Function(function) => {
                String::from_utf8_lossy(&function.registered().name).into_owned()
            }
        }
    }

    /// A call of it, in a state of Lua.
    pub(super) fn call(
        &self,
        machine: &mut Machine,
        keys: Vec<Vec<u8>>,
        arguments: Vec<Vec<u8>>,
    ) -> Result<Call, Failure> {
        let vm = &mut machine.vm;
        let call = match self {
            Self::Script(script) => {
                let compiled = vm.compile(script.name, &script.text);
                // It was compiled before, in a state as good as this one.
                compiled.map_err(|problem| format!("ERR {problem}"))?;
                vm.call_script(script.name, keys, arguments)
            }
            Self::Function(function) => {
                let source = function.library.source.clone();
                vm.call_function(source, &function.registered().name, keys, arguments)
            }
        };
        call.ok_or_else(|| "ERR there is no memory for the script".into())
    }
}
