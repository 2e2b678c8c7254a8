// Package browser tests the pages of package ui in Chromium.
package browser
