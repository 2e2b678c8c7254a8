package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// An etcdServer is an etcd process of one node, which stores its data in the
// temporary directory.
type etcdServer struct {
	addr string
	cmd  *exec.Cmd
}

func startEtcd(dir string) (*etcdServer, error) {
	path, err := exec.LookPath("etcd")
	if err != nil {
		return nil, errors.New("etcd is not on the PATH (Debian: etcd-server)")
	}
	client, err := freeAddr()
	if err != nil {
		return nil, err
	}
	peer, err := freeAddr()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "etcd.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, "--data-dir", filepath.Join(dir, "etcd"),
		"--listen-client-urls", "http://"+client, "--advertise-client-urls", "http://"+client,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer,
		"--initial-cluster", "default=http://"+peer)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &etcdServer{client, cmd}
	c, err := etcdClient(client)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		_, err = c.Put(ctx, "compare", "up")
		_ = c.Close()
	}
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("etcd does not answer: %w", err)
	}
	return s, nil
}

func (s *etcdServer) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func etcdClient(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
}

type etcdSlot struct {
	c    *clientv3.Client
	name string
	m    *concurrency.Mutex
}

// openEtcd is the mutex of etcd's concurrency. Its owner is the session, so each
// goroutine has one.
func openEtcd(_ context.Context, t *task) (*opened, error) {
	c, err := etcdClient(t.Addrs[0])
	if err != nil {
		return nil, err
	}
	return &opened{
		slot:  func(name string) slot { return &etcdSlot{c: c, name: name} },
		close: c.Close,
	}, nil
}

func (s *etcdSlot) take(ctx context.Context) error {
	if s.m == nil {
		session, err := concurrency.NewSession(s.c, concurrency.WithTTL(int(lease.Seconds())))
		if err != nil {
			return err
		}
		s.m = concurrency.NewMutex(session, s.name)
	}
	return s.m.Lock(ctx)
}

func (s *etcdSlot) give(ctx context.Context) error { return s.m.Unlock(ctx) }
