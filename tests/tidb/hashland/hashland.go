// Package hashland stands for one that no longer can be had, and of which nothing here is called.
package hashland
