//! Workload A of YCSB as scripts of pgbench: half of the transactions read a row, half write one of its fields.
//!
//! A row has ten fields of 100 bytes. Few rows are asked for most of the time: their ranks follow Zipf's law, and
//! rows of neighbouring ranks are not neighbours. YCSB's exponent is 0.99; pgbench draws with exponents above 1 only, and needs
//! the more attempts for a number the nearer they are to it.

use crate::postgres::Script;

pub(super) const NAME: &str = "ycsb-a";
/// Rows for each step of pgbench's scale.
pub(super) const ROWS: u32 = 10_000;

/// With `rows` as a variable of psql.
pub(super) const TABLE: &str = "
create table usertable (
    ycsb_key int primary key,
    field0 text, field1 text, field2 text, field3 text, field4 text,
    field5 text, field6 text, field7 text, field8 text, field9 text
) with (fillfactor = 80);
insert into usertable select key, f, f, f, f, f, f, f, f, f, f
    from (select key, lpad(md5(key::text), 100, 'x') as f from generate_series(1, :rows) key) made;
vacuum analyze usertable;
";

pub(super) const SCRIPTS: [Script; 2] = [
    Script {
        weight: 1,
        text: "
\\set key permute(random_zipfian(1, :rows, 1.01) - 1, :rows, 1) + 1
select * from usertable where ycsb_key = :key;
",
    },
    Script {
        weight: 1,
        text: "
\\set key permute(random_zipfian(1, :rows, 1.01) - 1, :rows, 1) + 1
\\set value random(0, 999999999)
update usertable set field0 = lpad(:value::text, 100, 'x') where ycsb_key = :key;
",
    },
];
