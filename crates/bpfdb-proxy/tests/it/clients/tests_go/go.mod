module bpfdb/tests/suites

go 1.24.0

require github.com/jackc/pgx/v5 v5.8.0
