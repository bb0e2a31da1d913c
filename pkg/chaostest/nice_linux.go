package chaostest

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// standBack lets everything else on this machine go before this process. A
// flood comes from other machines normally; where it has to come from the same
// processors, it may take what the processes under test leave.
func standBack() {
	tasks, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(os.Getpid()), "task"))
	if err != nil {
		return
	}
	for _, task := range tasks {
		if tid, err := strconv.Atoi(task.Name()); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, tid, 10) // new threads inherit it
		}
	}
}
