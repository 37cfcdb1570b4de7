// SPDX-License-Identifier: MIT OR Apache-2.0

// A loader with cilium/ebpf: lets an object that embeds bpfdb join the engine that is pinned in a
// folder, attaches its XDP program to an interface, and does both again when the engine has been
// replaced. Runs until it is killed. docs/joining.md explains each step.
//
//	join FOLDER OBJECT PROGRAM INTERFACE
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

const config = ".rodata.bpfdb"

var shared = []string{
	"segments", "directory", "slabs", "sessions", "snapshots", "snapshot_groups",
	"removals", "log_state", "log_rings", "counters", "maintenance", ".data.bpfdb",
}

// BPF_F_RDONLY_PROG and BPF_F_MMAPABLE of linux/bpf.h: what cilium/ebpf expects of constants.
const flags = 1<<7 | 1<<10

// Places in the configuration, which every version of bpfdb has.
const holderAt = 4

// What an object and its engine have alike: the ABI version, and the layout.
func built(config []byte) []byte {
	return append(bytes.Clone(config[:4]), config[8:16]...)
}

// A bpf file system allows no dots in names.
func openPin(folder, name string) (*ebpf.Map, error) {
	pin := strings.ReplaceAll(strings.TrimPrefix(name, "."), ".", "_")
	return ebpf.LoadPinnedMap(filepath.Join(folder, pin), nil)
}

func id(m *ebpf.Map) (ebpf.MapID, error) {
	info, err := m.Info()
	if err != nil {
		return 0, err
	}
	id, _ := info.ID()
	return id, nil
}

// Is the engine with this configuration the one that is pinned?
func isIn(folder string, pinned *ebpf.Map) bool {
	now, err := openPin(folder, config)
	if err != nil {
		return false
	}
	defer now.Close()
	ours, errOurs := id(pinned)
	theirs, errTheirs := id(now)
	return errOurs == nil && errTheirs == nil && ours == theirs
}

// The constants of the object, as a map of their own with its id as the holder.
func constants(spec *ebpf.MapSpec, pinned *ebpf.Map) (*ebpf.Map, error) {
	value, err := pinned.LookupBytes(uint32(0))
	if err != nil {
		return nil, err
	}
	own, _ := spec.Contents[0].Value.([]byte)
	if len(own) != len(value) || !bytes.Equal(built(own), built(value)) {
		return nil, errors.New("the object was built with another version of bpfdb")
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		// By a name with .rodata it would be frozen before it has its value.
		Name: "rodata_bpfdb", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(value)),
		MaxEntries: 1, Flags: flags,
	})
	if err != nil {
		return nil, err
	}
	holder, err := id(m)
	if err != nil {
		return nil, err
	}
	binary.NativeEndian.PutUint32(value[holderAt:], uint32(holder))
	if err := m.Put(uint32(0), value); err != nil {
		return nil, err
	}
	// The verifier knows the values of a map that is frozen.
	return m, m.Freeze()
}

// Loads the object on the maps of the engine.
func join(folder, file string, pinned *ebpf.Map) (*ebpf.Collection, error) {
	spec, err := ebpf.LoadCollectionSpec(file)
	if err != nil {
		return nil, err
	}
	maps := map[string]*ebpf.Map{}
	for _, name := range append([]string{config}, shared...) {
		own, found := spec.Maps[name]
		if !found && name != config {
			// Not every object has all of them.
			continue
		} else if !found {
			return nil, errors.New("the object does not embed bpfdb")
		}
		if name == config {
			maps[name], err = constants(own, pinned)
		} else {
			maps[name], err = openPin(folder, name)
		}
		if err != nil {
			return nil, err
		}
		defer maps[name].Close()
		// The sizes are the engine's.
		own.MaxEntries, own.ValueSize = maps[name].MaxEntries(), maps[name].ValueSize()
		own.Flags = maps[name].Flags()
	}
	return ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: maps})
}

// Until another engine is in the folder, or none.
func serve(folder, file, program, name string, pinned *ebpf.Map) error {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	objects, err := join(folder, file, pinned)
	if err != nil {
		return err
	}
	// Closes the sessions of the programs, too.
	defer objects.Close()
	attached, err := link.AttachXDP(link.XDPOptions{
		Program: objects.Programs[program], Interface: device.Index,
	})
	if err != nil {
		return err
	}
	defer attached.Close()
	fmt.Println("joined")
	for isIn(folder, pinned) {
		time.Sleep(time.Second)
	}
	return nil
}

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: join FOLDER OBJECT PROGRAM INTERFACE")
	}
	folder := os.Args[1]
	for {
		pinned, err := openPin(folder, config)
		if errors.Is(err, os.ErrNotExist) {
			time.Sleep(time.Second)
			continue
		} else if err != nil {
			log.Fatal(err)
		}
		err = serve(folder, os.Args[2], os.Args[3], os.Args[4], pinned)
		// It may also have been replaced meanwhile.
		if err != nil && isIn(folder, pinned) {
			log.Fatal(err)
		}
		pinned.Close()
	}
}
