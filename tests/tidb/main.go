// Command tidb-server runs a real TiDB in one process: its SQL layer over its embedded storage.
//
// Clients connect to a port of 127.0.0.1, as root without a password. There is no cluster, so no
// garbage collector: this writes the safe point that one would, and tests move it.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pingcap/tidb/pkg/config"
	"github.com/pingcap/tidb/pkg/server"
	"github.com/pingcap/tidb/pkg/session"
	"github.com/pingcap/tidb/pkg/store/mockstore"
	"github.com/pingcap/tidb/pkg/util/logutil"
)

// Without a safe point, TiDB lets nobody read the past.
const safePoint = `INSERT IGNORE INTO mysql.tidb VALUES
	('tikv_gc_safe_point', '20200101-00:00:00.000 +0000', ''),
	('tikv_gc_life_time', '10m0s', ''),
	('tikv_gc_enable', 'true', '')`

func main() {
	settings := config.NewConfig()
	flag.UintVar(&settings.Port, "port", 4000, "the port")
	flag.StringVar(&settings.Path, "data", "", "the folder of the data (default: memory)")
	flag.StringVar(&settings.Security.SSLCert, "cert", "", "TLS: the file of the certificate")
	flag.StringVar(&settings.Security.SSLKey, "key", "", "TLS: the file of its key")
	lease := flag.Duration("lease", 100*time.Millisecond, "how long a schema is valid")
	flag.Parse()
	if err := run(settings, *lease); err != nil {
		log.Fatal(err)
	}
}

func run(settings *config.Config, lease time.Duration) error {
	settings.Host, settings.Store, settings.Socket = "127.0.0.1", "unistore", ""
	settings.Status.ReportStatus = false
	settings.Performance.ForceInitStats = false
	settings.Log.Level = "error"
	config.StoreGlobalConfig(settings)
	if err := logutil.InitLogger(settings.Log.ToLogConfig()); err != nil {
		return err
	}
	session.SetSchemaLease(lease)
	session.DisableStats4Test()

	store, err := mockstore.NewMockStore(mockstore.WithPath(settings.Path))
	if err != nil {
		return err
	}
	domain, err := session.BootstrapSession(store)
	if err != nil {
		return err
	}
	owner, err := session.CreateSession(store)
	if err != nil {
		return err
	}
	if _, err := owner.Execute(context.Background(), safePoint); err != nil {
		return err
	}
	clients, err := server.NewServer(settings, server.NewTiDBDriver(store))
	if err != nil {
		return err
	}
	clients.SetDomain(domain)
	// It ends what takes longer than max_execution_time.
	go domain.ExpensiveQueryHandle().SetSessionManager(clients).Run()

	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	failed := make(chan error, 1)
	go func() { failed <- clients.Run(domain) }()
	select {
	case err := <-failed:
		return err
	case <-ended:
	}
	if settings.Path == "" {
		return nil
	}
	// What was written is to be there again.
	clients.Close()
	domain.Close()
	return store.Close()
}
