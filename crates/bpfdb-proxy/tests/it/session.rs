//! What a client has said of its session holds for it, and for no other.

use crate::postgres;
use crate::proxy::{TestProxy, WAYS};
use crate::wire::Wire;

#[test]
fn parameters_follow_their_client() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let named = |name| Wire::connect(proxy.port, postgres::USER, &[("application_name", name)]);
        let (mut one, mut two) = (named("one"), named("two"));
        one.query("set timezone to 'Asia/Tokyo'");
        two.query("set datestyle to 'German'");
        for _ in 0..3 {
            let shown = "select current_setting('application_name') || ' ' || current_setting('timezone') \
                         || ' ' || split_part(current_setting('datestyle'), ',', 1)";
            assert!(
                one.value(shown).starts_with("one Asia/Tokyo ISO"),
                "{way:?}"
            );
            let shown = two.value(shown);
            assert!(
                shown.starts_with("two ") && shown.ends_with(" German"),
                "{way:?}: {shown}"
            );
        }
    }
}

#[test]
fn a_session_with_state_keeps_its_server() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        for state in ["set work_mem = '7MB'", "select 1; set work_mem = '7MB'"] {
            let (mut one, mut two) = (proxy.client(), proxy.client());
            one.query(state);
            for _ in 0..3 {
                assert_eq!(one.value("show work_mem"), "7MB", "{way:?}");
                assert_ne!(two.value("show work_mem"), "7MB", "{way:?}");
            }
            drop(one);
            // What it leaves is put right before another has it.
            let mut three = proxy.client();
            two.query("begin");
            assert_ne!(three.value("show work_mem"), "7MB", "{way:?}");
        }
        let mut one = proxy.client();
        one.query("create temporary table mine (a int)");
        let mut others = [proxy.client(), proxy.client()];
        for other in &mut others {
            assert_eq!(
                other.value("select to_regclass('mine') is null"),
                "t",
                "{way:?}"
            );
        }
        assert_eq!(one.value("select count(*) from mine"), "0");
    }
}

/// What ends with the transaction keeps no server.
#[test]
fn local_settings_keep_no_server() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let (mut one, mut two) = (proxy.client(), proxy.client());
        one.query("begin");
        one.query("set local work_mem = '7MB'");
        one.query("declare c cursor for select 1");
        one.query("commit");
        assert_ne!(two.value("show work_mem"), "7MB", "{way:?}");
    }
}

#[test]
fn a_failed_transaction_stays_failed() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        let mut wire = proxy.client();
        wire.query("begin");
        let status = |messages: Vec<(u8, Vec<u8>)>| messages.last().expect("ready").1[0];
        assert_eq!(status(wire.query("nonsense")), b'E');
        assert_eq!(status(wire.query("select 1")), b'E');
        assert_eq!(status(wire.query("rollback")), b'I');
        assert_eq!(wire.value("select 2"), "2");
    }
}
