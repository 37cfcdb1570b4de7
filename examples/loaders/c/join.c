// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A loader with plain libbpf: lets an object that embeds bpfdb join the engine that is pinned in a
 * folder, attaches its XDP program to an interface, and does both again when the engine has been
 * replaced. Runs until it is killed. docs/joining.md explains each step.
 *
 *	join FOLDER OBJECT PROGRAM INTERFACE
 */
#include <linux/limits.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <bpfdb/abi.h>

#define CONFIG ".rodata.bpfdb"

static const char *const shared[] = {
	"segments", "directory", "slabs",     "sessions", "snapshots",   "snapshot_groups",
	"removals", "log_state", "log_rings", "counters", "maintenance", ".data.bpfdb",
};

static __u32 map_id(int fd)
{
	struct bpf_map_info info = {};
	__u32 size = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &size) ? 0 : info.id;
}

/* The pin of a map, as a descriptor. A bpf file system allows no dots in names. */
static int open_pin(const char *folder, const char *map)
{
	char path[PATH_MAX], *dot;
	int start = snprintf(path, sizeof(path), "%s/", folder);

	snprintf(path + start, sizeof(path) - start, "%s", map + (*map == '.'));
	while ((dot = strchr(path + start, '.')))
		*dot = '_';
	return bpf_obj_get(path);
}

/* Is the engine with this configuration the one that is pinned? */
static int is_in(const char *folder, int config)
{
	int pin = open_pin(folder, CONFIG), same = pin >= 0 && map_id(pin) == map_id(config);

	if (pin >= 0)
		close(pin);
	return same;
}

/* Makes the constants of the object a map of their own, with its id as the holder. */
static int set_config(struct bpf_map *map, int pinned)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_RDONLY_PROG);
	struct bpf_map_info info = {};
	struct bpfdb_config config;
	const struct bpfdb_config *built;
	__u32 zero = 0, size = sizeof(info);
	size_t built_size;
	int own, failed;

	built = bpf_map__initial_value(map, &built_size);
	failed = bpf_obj_get_info_by_fd(pinned, &info, &size);
	if (failed || info.value_size != sizeof(config) || built_size != sizeof(config) ||
	    bpf_map_lookup_elem(pinned, &zero, &config) || built->layout != config.layout ||
	    built->abi_version != config.abi_version) {
		fprintf(stderr, "the object was built with another version of bpfdb\n");
		return -1;
	}
	own = bpf_map_create(BPF_MAP_TYPE_ARRAY, CONFIG, sizeof(zero), sizeof(config), 1, &options);
	config.holder = map_id(own);
	/* The verifier knows the values of a map that is frozen. */
	failed = bpf_map_update_elem(own, &zero, &config, BPF_ANY) || bpf_map_freeze(own) ||
		 bpf_map__reuse_fd(map, own);
	close(own);
	return failed ? -1 : 0;
}

static int share(struct bpf_object *object, const char *folder, const char *name)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, name);
	int pin, failed;

	/* Not every object has all of them. */
	if (!map)
		return 0;
	pin = open_pin(folder, name);
	failed = pin < 0 || bpf_map__reuse_fd(map, pin);
	if (pin >= 0)
		close(pin);
	if (failed)
		fprintf(stderr, "map %s cannot be shared\n", name);
	return failed ? -1 : 0;
}

/* Between open and load. */
static int join(struct bpf_object *object, const char *folder, int config)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, CONFIG);

	for (size_t i = 0; i < sizeof(shared) / sizeof(*shared); i++)
		if (share(object, folder, shared[i]))
			return -1;
	if (map)
		return set_config(map, config);
	fprintf(stderr, "the object does not embed bpfdb\n");
	return -1;
}

/* Until another engine is in the folder, or none. -1: the object could not join or run. */
static int serve(char **argv, int config)
{
	struct bpf_object *object = bpf_object__open_file(argv[2], NULL);
	struct bpf_program *program = NULL;
	struct bpf_link *link = NULL;

	if (object && !join(object, argv[1], config) && !bpf_object__load(object))
		program = bpf_object__find_program_by_name(object, argv[3]);
	if (program)
		link = bpf_program__attach_xdp(program, if_nametoindex(argv[4]));
	if (link) {
		puts("joined");
		fflush(stdout);
		while (is_in(argv[1], config))
			sleep(1);
	}
	/* Closes the sessions of the programs, too. */
	bpf_link__destroy(link);
	bpf_object__close(object);
	return link ? 0 : -1;
}

int main(int argc, char **argv)
{
	int config, failed;

	if (argc != 5) {
		fprintf(stderr, "usage: join FOLDER OBJECT PROGRAM INTERFACE\n");
		return 2;
	}
	for (;;) {
		while ((config = open_pin(argv[1], CONFIG)) < 0)
			sleep(1);
		/* It may also have been replaced meanwhile. */
		failed = serve(argv, config) && is_in(argv[1], config);
		close(config);
		if (failed)
			return 1;
	}
}
