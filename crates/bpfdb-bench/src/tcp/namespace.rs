//! Network namespaces in which servers and clients run.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::gettid;

/// A network namespace, and an address in it: a new one, which ends when it is not held
/// any more, or that of this program.
#[derive(Clone, Debug)]
pub(crate) struct NetworkNamespace {
    pub(crate) address: IpAddr,
    file: Option<Arc<File>>,
}

impl NetworkNamespace {
    /// This program's own namespace: loopback.
    pub(crate) fn here() -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
            file: None,
        }
    }

    /// Two new namespaces, connected by a pair of veth devices: as if there were
    /// two machines, as far as TCP is concerned.
    pub(crate) fn veth_pair() -> Result<[Self; 2]> {
        let (sender, receiver) = mpsc::channel();
        let (done, wait) = mpsc::channel::<()>();
        // `ip` names the other namespace by a thread that is in it.
        let holder = thread::spawn(move || {
            let made = Self::new(2).map(|namespace| (namespace, gettid()));
            let made = sender.send(made);
            // Until the devices are there, or they are not wanted any more.
            made.is_ok().then(|| wait.recv())
        });
        let (there, thread) = receiver.recv().context("a namespace")??;
        let here = thread::spawn(move || {
            let namespace = Self::new(1)?;
            ip(&format!(
                "link add veth1 type veth peer name veth2 netns {thread}"
            ))?;
            configure(1)?;
            Ok::<_, anyhow::Error>(namespace)
        });
        let here = here.join().map_err(|_| anyhow!("a namespace"))??;
        drop(done);
        let _ = holder.join();
        there.visit(|| configure(2))??;
        Ok([here, there])
    }

    /// Puts this thread, which should end soon, into a new namespace.
    fn new(number: u8) -> Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET).context("create a network namespace")?;
        ip("link set lo up")?;
        let file = File::open("/proc/thread-self/ns/net").context("open a network namespace")?;
        Ok(Self {
            address: Ipv4Addr::new(10, 77, 0, number).into(),
            file: Some(Arc::new(file)),
        })
    }

    /// Has a processor receive what arrives at the veth device. By default the
    /// processor that sends it does. The setting is called receive packet steering; a mask of
    /// the kernel has 32 bits in a word.
    pub(crate) fn steer(&self, processor: u32) -> Result<()> {
        self.visit(|| {
            // Files of devices are those of the namespace that mounts them.
            unshare(CloneFlags::CLONE_NEWNS).context("create a namespace of mounts")?;
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?;
            mount(
                Some("sysfs"),
                "/sys",
                Some("sysfs"),
                MsFlags::empty(),
                None::<&str>,
            )?;
            let file = "/sys/class/net/veth1/queues/rx-0/rps_cpus";
            fs::write(file, format!("{:x}", 1u32 << processor)).context(file)
        })?
    }

    /// Calls `work` in this namespace.
    pub(crate) fn visit<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let Some(file) = &self.file else {
            return Ok(work());
        };
        thread::scope(|scope| {
            let visitor = scope.spawn(|| {
                setns(&**file, CloneFlags::CLONE_NEWNET)?;
                Ok(work())
            });
            visitor.join().map_err(|_| anyhow!("a thread failed"))?
        })
    }

    /// Has `command` run in this namespace.
    pub(crate) fn of_command(&self, command: &mut Command) {
        let Some(file) = self.file.clone() else {
            return;
        };
        let enter = move || setns(&*file, CloneFlags::CLONE_NEWNET).map_err(io::Error::from);
        // SAFETY: setns() is one system call, safe between fork and exec.
        unsafe { command.pre_exec(enter) };
    }
}

/// Configures the device of namespace `number`.
fn configure(number: u8) -> Result<()> {
    ip(&format!("address add 10.77.0.{number}/24 dev veth{number}"))?;
    ip(&format!("link set veth{number} up"))
}

/// Configures the network of this thread's namespace.
fn ip(arguments: &str) -> Result<()> {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .context("run ip, of iproute2")?;
    ensure!(status.success(), "ip {arguments}: {status}");
    Ok(())
}
