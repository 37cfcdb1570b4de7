module bpfdb/tests/go_proxy

go 1.24
