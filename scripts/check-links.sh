#!/bin/sh
# Every link of the documents leads somewhere, and every file that they name is there:
#  - relative links, pictures included, with the headings that they lead to;
#  - paths in backticks that begin like a folder of the tree, or end like a file of it; the
#    beginning of the latter may be left out, as in `storage/slab.bpf.h`;
#  - pages below docs/ that comments of the sources name.
set -eu
cd "$(dirname "$0")/.."

files=$(mktemp)
trap 'rm -f "$files"' EXIT
git ls-files -co --exclude-standard | while read -r file; do
	[ -e "$file" ] && printf '%s\n' "$file"
done >"$files"

# Files that a program writes, and that the documents tell about.
written='^(bench/results/.*|console\.log)$'

grep '\.md$' "$files" | tr '\n' '\0' | xargs -0 awk -v files="$files" -v written="$written" '
	BEGIN {
		while ((getline name < files) > 0) {
			is_there[name] = 1
			# Each folder, and each end of the path.
			for (rest = name; sub(/\/[^\/]*$/, "", rest);) is_there[rest] = 1
			for (rest = name; sub(/^[^\/]*\//, "", rest);) is_end[rest] = 1
			is_end[name] = 1
			if (name ~ /\.md$/) read_headings(name)
		}
	}

	# As GitHub makes names of headings.
	function read_headings(page,    line, fenced) {
		while ((getline line < page) > 0) {
			if (line ~ /^```/) fenced = !fenced
			if (fenced || line !~ /^#+ /) continue
			sub(/^#+ /, "", line)
			line = tolower(line)
			gsub(/[`*.,:;!?()\/…"“”\x27]/, "", line)
			gsub(/ /, "-", line)
			is_there[page "#" line] = 1
		}
		close(page)
	}

	function fail(what) {
		printf "%s:%d: %s\n", FILENAME, FNR, what
		failed = 1
	}

	# a/b/../c is a/c.
	function normal(path) {
		gsub(/\/\.\//, "/", path)
		sub(/^\.\//, "", path)
		while (sub(/[^\/.]+\/\.\.\//, "", path)) {}
		sub(/\/$/, "", path)
		return path
	}

	function check_link(link,    folder, path) {
		if (link ~ /^[a-z]+:/) return
		folder = FILENAME
		if (!sub(/[^\/]*$/, "", folder)) folder = ""
		path = link ~ /^#/ ? FILENAME link : normal(folder link)
		if (!(path in is_there)) fail("leads nowhere: " link)
	}

	# Every alternative of a/{b,c}.d
	function check_file(path,    before, list, after, names, i) {
		if (match(path, /\{[^}]*\}/)) {
			before = substr(path, 1, RSTART - 1)
			list = substr(path, RSTART + 1, RLENGTH - 2)
			after = substr(path, RSTART + RLENGTH)
			for (i = split(list, names, ","); i > 0; i--) check_file(before names[i] after)
			return
		}
		if (path ~ /[*<]/ || path ~ written || path ~ /^\//) return
		path = normal(path)
		if (!(path in is_end) && !(path in is_there)) fail("no such file: " path)
	}

	FNR == 1 { fenced = 0 }
	/^```/ { fenced = !fenced }
	fenced { next }
	{
		line = $0
		while (match(line, /\]\([^) ]+\)/)) {
			link = substr(line, RSTART + 2, RLENGTH - 3)
			line = substr(line, RSTART + RLENGTH)
			check_link(link)
		}
		line = $0
		while (match(line, /(src|srcset)="[^"]+"/)) {
			link = substr(line, RSTART, RLENGTH - 1)
			line = substr(line, RSTART + RLENGTH)
			sub(/^[a-z]*="/, "", link)
			check_link(link)
		}
		line = $0
		while (match(line, /`[^` ]+\.(rs|c|h|md|sh|toml|txt|json)`/)) {
			path = substr(line, RSTART + 1, RLENGTH - 2)
			line = substr(line, RSTART + RLENGTH)
			check_file(path)
		}
	}
	{
		line = $0
		while (match(line, /`(bpf|crates|docs|examples|include|scripts)\/[^` ]+`/)) {
			path = substr(line, RSTART + 1, RLENGTH - 2)
			line = substr(line, RSTART + RLENGTH)
			check_file(path)
		}
	}
	END { exit failed }
' || exit 1

# Pages that the sources name.
grep -vE '\.(md|svg|json)$' "$files" | tr '\n' '\0' |
	xargs -0 grep -noIE '(^|[^a-z/])docs/[a-z0-9/-]+\.(md|toml)' | {
	failed=0
	while IFS=: read -r file line page; do
		page=docs/${page#*docs/}
		[ -e "$page" ] || { echo "$file:$line: no such page: $page"; failed=1; }
	done
	exit $failed
}
