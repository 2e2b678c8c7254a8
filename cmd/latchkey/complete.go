package main

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
)

const (
	completeWithin = 2 * time.Second // how long a completion asks Redis
	mostOffered    = 200             // how many words a completion offers
)

// offer returns what f finds in Redis for a completion; nothing if Redis does not
// answer in time.
func (c *connection) offer(f func(ctx context.Context, s *session) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	var all []string
	_ = c.session(func(ctx context.Context, s *session) (err error) {
		ctx, cancel := context.WithTimeout(ctx, completeWithin)
		defer cancel()
		all, err = f(ctx, s)
		return err
	})
	return all[:min(len(all), mostOffered)], cobra.ShellCompDirectiveNoFileComp
}

// completeName offers the names of objects as the first argument.
func (c *connection) completeName(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return c.completeBy((*object.Finder).Find)(cmd, args, begun)
}

// completeBy returns what offers the names that find finds as the first argument.
func (c *connection) completeBy(find func(*object.Finder, context.Context, redis.UniversalClient) ([]string, error)) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.offer(func(ctx context.Context, s *session) ([]string, error) {
			defer s.closing(ctx)()
			names, err := find(object.Beginning(begun), ctx, s.rdb)
			return slices.DeleteFunc(names, func(name string) bool { return !safeWord(name) }), err
		})
	}
}

// completeHolder offers the holders of NAME, each with its label.
func (c *connection) completeHolder(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.offer(func(ctx context.Context, s *session) ([]string, error) {
		info, err := s.client.Info(ctx, args[0])
		var all []string
		for _, h := range info.Holders {
			if strings.HasPrefix(h.ID, begun) && safeWord(h.ID) {
				all = append(all, h.ID+"\t"+text.Phrase(h.Label))
			}
		}
		return all, err
	})
}

// safeWord reports whether a shell takes word for itself, whoever chose it.
func safeWord(word string) bool {
	for i, r := range word {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && (i == 0 || !strings.ContainsRune("-_./:@+=%{}", r)) {
			return false
		}
	}
	return word != ""
}
