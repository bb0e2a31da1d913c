//go:build !linux

package chaostest

func standBack() {}
