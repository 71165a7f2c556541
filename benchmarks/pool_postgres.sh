#!/usr/bin/env bash
# The pool in PostgreSQL compared with the pool on RocksDB: three servers on this machine, one primary and two standbys, of which
# one has every commit on its disk before the commit is acknowledged (synchronous_standby_names = 'ANY 1 (a, b)').
#
#   benchmarks/pool_postgres.sh build/release/benchmarks/datapool_bench [seconds per line]
#
# Needs PostgreSQL (scripts/setup.sh services). All files are in a temporary folder, the servers listen on sockets there.
# Not measured: a network between the servers, and three disks: the servers share one.
set -euo pipefail
bench=$1 seconds=${2:-5}
programs=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
folder=$(mktemp -d)
as=()
if [ "$(id -u)" = 0 ]; then
  chown postgres "$folder"
  as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
fi
stop() {
  for name in b a primary; do
    [ ! -e "$folder/$name/postmaster.pid" ] || "${as[@]}" "$programs/pg_ctl" -D "$folder/$name" -m immediate stop >/dev/null || true
  done
  rm -rf "$folder"
}
trap stop EXIT
start() {
  "${as[@]}" "$programs/pg_ctl" -D "$folder/$1" -l "$folder/$1.log" -w \
    -o "-k $folder -c listen_addresses= -p $2 -c cluster_name=$1" start >/dev/null
}
"${as[@]}" "$programs/initdb" -D "$folder/primary" -U ingot --auth=trust --encoding=UTF8 --locale=C >/dev/null
printf "%s\n" "max_wal_size = 4GB" "synchronous_standby_names = 'ANY 1 (a, b)'" >>"$folder/primary/postgresql.conf"
start primary 5501
for name in a b; do
  "${as[@]}" "$programs/pg_basebackup" -d "host=$folder port=5501 user=ingot application_name=$name" -D "$folder/$name" -R -X stream -c fast
done
start a 5502
start b 5503
psql() { "$programs/psql" -qtA -h "$folder" -p 5501 -U ingot postgres -c "$1"; }
until [ "$(psql "select count(*) from pg_stat_replication where state = 'streaming'")" = 2 ]; do sleep 0.2; done
echo "standbys:" && psql "select application_name, sync_state from pg_stat_replication order by 1"
mkdir -m 700 "$folder/work"
"$bench" "$folder/work" "$seconds" "host=$folder port=5501 user=ingot dbname=postgres"
