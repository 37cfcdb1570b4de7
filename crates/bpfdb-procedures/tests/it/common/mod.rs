//! An engine, and the template of procedures in it.

pub(crate) mod visitor;

use bpfdb::{Engine, Options};
use bpfdb_procedures::load::Template;
use bpfdb_tests::lent::{Lent, Pool};

pub(crate) fn engine() -> Lent<Engine> {
    static ENGINES: Pool<Engine> = Pool::new();
    let options = Options {
        memory_limit: 64 << 20,
        ..Options::default()
    };
    ENGINES.take(|| Engine::create(&options).expect("the engine starts"))
}

pub(crate) fn template(engine: &Engine) -> Template {
    let mut object =
        bpfdb::open_object(bpfdb::objects::PROCEDURE, "procedure").expect("the template opens");
    engine.adopt(&mut object).expect("it is adopted");
    let object = object.load().expect("the template is verified");
    Template::new(object, "redis_procedure").expect("it is a template")
}
