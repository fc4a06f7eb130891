// Varve: a key-value storage engine. MIT licence, see LICENSE.
package cluster

import (
	"encoding/binary"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// The tests run in namespaces of their own for networks and mounts, so that
// nothing of them is seen outside, and nothing stays. Each node is in a further
// network namespace. Its packets go through a TUN device to this program, which
// passes them on, late, or not at all. The kernel needs no module for that.

const sandboxed = "VARVE_TEST_SANDBOX"

// enterSandbox runs this program again in new namespaces, and ends with its
// status. It returns why it cannot.
func enterSandbox() string {
	if os.Getenv(sandboxed) != "" {
		return ""
	}
	for _, program := range []string{"ip", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			return program + " is missing"
		}
	}
	if probe := exec.Command("true"); os.Getuid() != 0 {
		return "not root"
	} else {
		probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
		if err := probe.Run(); err != nil {
			return "no namespaces: " + err.Error()
		}
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return "no TUN devices: " + err.Error()
	}
	command := exec.Command(os.Args[0], os.Args[1:]...)
	command.Env = append(os.Environ(), sandboxed+"=1")
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	// The thread that starts it must stay, or the signal comes.
	runtime.LockOSThread()
	if err := command.Run(); err != nil {
		if _, exited := err.(*exec.ExitError); !exited {
			return err.Error()
		}
	}
	os.Exit(command.ProcessState.ExitCode())
	return ""
}

// setUpSandbox is done once inside.
func setUpSandbox() error {
	for _, line := range []string{"mount --make-rprivate /", "ip link set lo up"} {
		words := strings.Fields(line)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %v: %s", line, err, out)
		}
	}
	return nil
}

// link is how packets of one direction between two hosts are treated. The
// fields are read for each packet.
type link struct {
	cut    atomic.Bool
	loss   atomic.Int64 // Of a thousand.
	delay  atomic.Int64 // Nanoseconds.
	jitter atomic.Int64 // Nanoseconds, at most.

	once  sync.Once
	queue chan packet
}

type packet struct {
	bytes []byte
	at    time.Time
}

// network is hosts with the addresses 10.77.0.1 and so on. Host 0, which has
// the address 10.77.0.254, is this program's.
type network struct {
	mutex sync.Mutex
	hosts map[int]*host
	links [256][256]*link

	passed, dropped atomic.Int64
}

type host struct {
	number int
	tun    *os.File
	tasks  chan func() // Done by a thread in the host's namespace.
}

func address(number int) string {
	if number == 0 {
		number = 254
	}
	return fmt.Sprintf("10.77.0.%d", number)
}

func newNetwork() (*network, error) {
	n := &network{hosts: map[int]*host{}}
	for from := range n.links {
		for to := range n.links[from] {
			n.links[from][to] = &link{}
		}
	}
	_, err := n.host(0)
	return n, err
}

// host returns a host, which is made if need be.
func (n *network) host(number int) (*host, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if h := n.hosts[number]; h != nil {
		return h, nil
	}
	h := &host{number: number, tasks: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // For good: the thread ends with the goroutine.
		err := h.open()
		ready <- err
		if err == nil {
			for task := range h.tasks {
				task()
			}
		}
	}()
	if err := <-ready; err != nil {
		return nil, err
	}
	n.hosts[number] = h
	go n.read(h)
	return h, nil
}

// open makes the namespace and the device of a host.
func (h *host) open() error {
	if h.number != 0 {
		if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
			return err
		}
	}
	fd, err := syscall.Open("/dev/net/tun", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	const setInterface, tunWithoutHeader = 0x400454ca, 0x1001 // TUNSETIFF, IFF_TUN | IFF_NO_PI.
	var request [40]byte
	copy(request[:15], "varve")
	binary.LittleEndian.PutUint16(request[16:], tunWithoutHeader)
	if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), setInterface,
		uintptr(unsafe.Pointer(&request[0]))); code != 0 {
		syscall.Close(fd)
		return code
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		return err
	}
	h.tun = os.NewFile(uintptr(fd), "tun")
	for _, line := range []string{
		"ip link set lo up", "ip address add " + address(h.number) + "/24 dev varve",
		"ip link set varve mtu 9000 up",
	} {
		words := strings.Fields(line)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %v: %s", line, err, out)
		}
	}
	return nil
}

// do runs a task in the namespace of the host.
func (h *host) do(task func() error) error {
	done := make(chan error)
	h.tasks <- func() { done <- task() }
	return <-done
}

// read passes on the packets of a host.
func (n *network) read(from *host) {
	random := rand.New(rand.NewSource(*seed + int64(from.number)))
	buffer := make([]byte, 10000)
	for {
		size, err := from.tun.Read(buffer)
		if err != nil {
			return
		}
		if size < 20 || buffer[0]>>4 != 4 {
			continue // Of IPv6.
		}
		to := int(buffer[19])
		if to == 254 {
			to = 0
		}
		n.mutex.Lock()
		target := n.hosts[to]
		n.mutex.Unlock()
		l := n.links[from.number][to]
		if target == nil || l.cut.Load() || random.Int63n(1000) < l.loss.Load() {
			n.dropped.Add(1)
			continue
		}
		n.passed.Add(1)
		delay := l.delay.Load()
		if jitter := l.jitter.Load(); jitter > 0 {
			delay += random.Int63n(jitter)
		}
		if delay == 0 && l.queue == nil {
			target.tun.Write(buffer[:size])
			continue
		}
		// Once there was a delay, all packets keep their order.
		l.once.Do(func() {
			l.queue = make(chan packet, 10000)
			go func() {
				for p := range l.queue {
					time.Sleep(time.Until(p.at))
					target.tun.Write(p.bytes)
				}
			}()
		})
		select {
		case l.queue <- packet{append([]byte(nil), buffer[:size]...), time.Now().Add(time.Duration(delay))}:
		default:
			n.dropped.Add(1)
		}
	}
}

// cut cuts or mends all links from some hosts to others.
func (n *network) cut(from, to []int, cut bool) {
	for _, a := range from {
		for _, b := range to {
			if a != b {
				n.links[a][b].cut.Store(cut)
			}
		}
	}
}

// slow sets delays and loss of all links of a host with others, but this
// program.
func (n *network) slow(one int, others []int, delay, jitter time.Duration, loss int64) {
	for _, other := range others {
		for _, l := range []*link{n.links[one][other], n.links[other][one]} {
			l.delay.Store(int64(delay))
			l.jitter.Store(int64(jitter))
			l.loss.Store(loss)
		}
	}
}

// disk is a file system in a file in memory.
type disk struct {
	memory, path string // Where the memory is mounted, and where the file system is.
}

const (
	diskBytes, memoryBytes = "400m", "500m"
	diskBlock              = 4096
)

// newDisk mounts a disk at a path.
func newDisk(path string) (*disk, error) {
	d := &disk{memory: path + ".memory", path: path}
	for _, dir := range []string{d.memory, d.path} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	image := filepath.Join(d.memory, "image")
	err := run("mount", "-t", "tmpfs", "-o", "size="+memoryBytes, "varve", d.memory)
	if err == nil {
		err = run("truncate", "-s", diskBytes, image)
	}
	if err == nil {
		// No machine stops here, so that no journal is needed; and a sync that the
		// journal could not do is sometimes taken for done.
		err = run("mkfs.ext4", "-q", "-F", "-m", "0", "-b", fmt.Sprint(diskBlock), "-O", "^has_journal",
			"-E", "lazy_itable_init=0", image)
	}
	if err == nil {
		err = d.mount()
	}
	return d, err
}

// checkDisks says why there are no disks.
func checkDisks() error {
	for _, program := range []string{"mkfs.ext4", "losetup", "mount", "truncate"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is missing", program)
		}
	}
	dir, err := os.MkdirTemp("", "varve-disk")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d, err := newDisk(filepath.Join(dir, "disk"))
	d.remove()
	return err
}

func run(words ...string) error {
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %v: %s", strings.Join(words, " "), err, out)
	}
	return nil
}

// mount makes a device that never writes a part of what it is told to write: the
// kernel takes such a write for a whole one, and a sync of what is lost would
// succeed. Every request is one block, which is one page of the memory.
func (d *disk) mount() error {
	if err := run("mount", "-o", "loop,discard", filepath.Join(d.memory, "image"), d.path); err != nil {
		return err
	}
	var at syscall.Stat_t
	if err := syscall.Stat(d.path, &at); err != nil {
		return err
	}
	const minorBits = 8
	setting := fmt.Sprintf("/sys/dev/block/%d:%d/queue/max_sectors_kb",
		at.Dev>>minorBits, at.Dev&(1<<minorBits-1))
	return os.WriteFile(setting, []byte(fmt.Sprint(diskBlock>>10)), 0o644)
}

// remount is what a restart of a machine does. No process may use the disk.
func (d *disk) remount() error {
	if err := run("umount", d.path); err != nil {
		return err
	}
	run("fsck.ext4", "-y", filepath.Join(d.memory, "image")) // 1 is that it has repaired something.
	return d.mount()
}

func (d *disk) remove() {
	run("umount", "-l", d.path)
	run("umount", "-l", d.memory)
}

// fill leaves no space: for files, or, if `failing`, for what files have in
// the cache, so that it cannot be written when it is synced. It is undone by
// empty.
func (d *disk) fill(failing bool) error {
	in := d.path
	if failing {
		in = d.memory
	}
	file, err := os.Create(filepath.Join(in, "filling"))
	if err != nil {
		return err
	}
	defer file.Close()
	at := int64(0)
	for _, size := range []int64{32 << 20, 1 << 20, 4 << 10} {
		for syscall.Fallocate(int(file.Fd()), 0, at, size) == nil {
			at += size
		}
	}
	return nil
}

func (d *disk) empty() {
	os.Remove(filepath.Join(d.path, "filling"))
	os.Remove(filepath.Join(d.memory, "filling"))
}
