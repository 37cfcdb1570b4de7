#!/bin/sh
# Starts a PostgreSQL of its own, in a folder that goes with it, and the proxy before it. The kernel brings
# the queries of clients that are in the cgroup of this shell.
# Usage: run-proxy.sh PROXY [ARGUMENTS OF THE PROXY]
set -eu

proxy=$1
shift
listen=${LISTEN:-127.0.0.1:6432}
port=${PGPORT:-5679}
bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
folder=$(mktemp -d)
data=$folder/data
user=postgres
id -u $user >/dev/null 2>&1 || user=nobody
as_user() { setpriv --reuid=$user --regid="$(id -g $user)" --clear-groups "$@"; }

mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
own=$(sed -n 's/^0:://p' /proc/self/cgroup)
cgroup=$mount$own
[ -n "$mount" ] && [ -d "$cgroup" ] && set -- --cgroup "$cgroup" "$@"

stop() {
	as_user "$bin/pg_ctl" -D "$data" -m immediate stop >/dev/null 2>&1 || true
	rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT TERM

chown "$user" "$folder"
cd /
as_user "$bin/initdb" -D "$data" -U postgres -A trust --no-sync >/dev/null
cat >>"$data/postgresql.conf" <<SETTINGS
port = $port
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
SETTINGS
as_user "$bin/pg_ctl" -D "$data" -l "$data/log" -w start >/dev/null
echo "psql -h ${listen%:*} -p ${listen##*:} -U postgres postgres"
"$OLDPWD/$proxy" --listen "$listen" --database "*=host=127.0.0.1 port=$port" "$@"
