//! Tables of the console, with the columns of PgBouncer 1.18.

mod connections;
mod pools;
mod stats;
mod various;

use bytes::BytesMut;
pub(crate) use pools::Counts;

use super::super::Proxy;
use crate::wire::rows::{self, Column, Kind, Row};

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    ActiveSockets,
    Clients,
    Config,
    Databases,
    DnsHosts,
    DnsZones,
    Fds,
    Help,
    Lists,
    Mem,
    Mirrors,
    Pools,
    Servers,
    Sockets,
    Stats,
    StatsAverages,
    StatsTotals,
    Totals,
    Users,
    Version,
}

const NAMES: [(&str, What); 20] = [
    ("ACTIVE_SOCKETS", What::ActiveSockets),
    ("CLIENTS", What::Clients),
    ("CONFIG", What::Config),
    ("DATABASES", What::Databases),
    ("DNS_HOSTS", What::DnsHosts),
    ("DNS_ZONES", What::DnsZones),
    ("FDS", What::Fds),
    ("HELP", What::Help),
    ("LISTS", What::Lists),
    ("MEM", What::Mem),
    ("MIRRORS", What::Mirrors),
    ("POOLS", What::Pools),
    ("SERVERS", What::Servers),
    ("SOCKETS", What::Sockets),
    ("STATS", What::Stats),
    ("STATS_AVERAGES", What::StatsAverages),
    ("STATS_TOTALS", What::StatsTotals),
    ("TOTALS", What::Totals),
    ("USERS", What::Users),
    ("VERSION", What::Version),
];

impl What {
    pub(super) fn of(text: &str) -> Option<Self> {
        let found = NAMES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text));
        found.map(|(_, what)| *what)
    }
}

const USAGE: &str = "\n\tSHOW HELP|CONFIG|DATABASES|POOLS|CLIENTS|SERVERS|USERS|VERSION\n\
    \tSHOW FDS|SOCKETS|ACTIVE_SOCKETS|LISTS|MEM|MIRRORS\n\
    \tSHOW DNS_HOSTS|DNS_ZONES\n\
    \tSHOW STATS|STATS_TOTALS|STATS_AVERAGES|TOTALS\n\
    \tSET key = arg\n\
    \tRELOAD\n\
    \tPAUSE [<db>]\n\
    \tRESUME [<db>]\n\
    \tDISABLE <db>\n\
    \tENABLE <db>\n\
    \tRECONNECT [<db>]\n\
    \tKILL <db>\n\
    \tMIRROR <db> TO <db>\n\
    \tUNMIRROR <db>\n\
    \tSHUTDOWN [WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS]\n\
    \tWAIT_CLOSE [<db>]";

/// A table.
struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

fn text(name: &'static str) -> Column {
    (name, Kind::Text)
}

fn int4(name: &'static str) -> Column {
    (name, Kind::Int4)
}

fn int8(name: &'static str) -> Column {
    (name, Kind::Int8)
}

fn numeric(name: &'static str) -> Column {
    (name, Kind::Numeric)
}

fn some(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

impl Proxy {
    pub(super) fn show(&self, what: What, out: &mut BytesMut) {
        let table = match what {
            What::Help => {
                rows::notice(out, "Console usage", USAGE);
                return rows::complete(out, "SHOW");
            }
            What::ActiveSockets => self.show_sockets(true),
            What::Clients => self.show_clients(),
            What::Config => self.show_config(),
            What::Databases => self.show_databases(),
            What::DnsHosts => self.dns_hosts(),
            What::DnsZones => various::dns_zones(),
            What::Fds => self.show_fds(),
            What::Lists => self.show_lists(),
            What::Mem => self.show_mem(),
            What::Mirrors => self.show_mirrors(),
            What::Pools => self.show_pools(),
            What::Servers => self.show_servers(),
            What::Sockets => self.show_sockets(false),
            What::Stats => self.show_stats(),
            What::StatsAverages => self.show_stats_averages(),
            What::StatsTotals => self.show_stats_totals(),
            What::Totals => self.show_totals(),
            What::Users => self.show_users(),
            What::Version => various::version(),
        };
        rows::description(out, &table.columns);
        for row in &table.rows {
            rows::row(out, row);
        }
        rows::complete(out, "SHOW");
    }
}
